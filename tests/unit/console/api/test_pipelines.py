from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.console.api.pipelines import _ask, announced, decode

GOOD: dict[str, Any] = {
    "version": 1,
    "pid": os.getpid(),
    "name": "clicks",
    "bootstrap_servers": "",
    "started_ms": 1,
    "updated_ms": 2,
    "jobs": [{"name": "a", "kind": "ingest", "state": "running"}],
}


def plant(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_only_files_of_living_processes_and_sound_content(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir(mode=0o700)
    own = plant(folder, f"{os.getpid()}.json", json.dumps(GOOD))
    plant(folder, "999999999.json", json.dumps(GOOD | {"pid": 999999999}))
    plant(folder, "1.json", json.dumps(GOOD))
    plant(folder, "x.json", json.dumps(GOOD))
    plant(folder, f"{os.getppid()}.json", "{" * 5000)
    assert [one.name for one in announced(folder)] == ["clicks"]
    own.unlink()
    os.mkfifo(own)
    assert list(announced(folder)) == []
    own.unlink()
    own.symlink_to(plant(tmp_path, "elsewhere", json.dumps(GOOD)))
    assert list(announced(folder)) == []
    own.unlink()
    plant(folder, own.name, json.dumps(GOOD | {"name": "x" * 1_000_001}))
    assert list(announced(folder)) == []


def test_a_folder_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    plant(tmp_path, f"{os.getpid()}.json", json.dumps(GOOD))
    tmp_path.chmod(0o700)
    assert list(announced(tmp_path))
    tmp_path.chmod(0o777)
    assert list(announced(tmp_path)) == []
    assert list(announced(tmp_path / "missing")) == [] and list(announced(None)) == []


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "data:,x"])
def test_a_link_is_made_of_http_only(url: str) -> None:
    assert decode(json.dumps(GOOD | {"spark_ui": url}).encode()).spark_ui is None
    kept = decode(json.dumps(GOOD | {"spark_ui": "http://127.0.0.1:4040"}).encode())
    assert kept.spark_ui == "http://127.0.0.1:4040"


@pytest.mark.parametrize(
    "changed",
    [{"version": 2}, {"jobs": "none"}, {"pid": "1"}, {"jobs": GOOD["jobs"] * 501}],
)
def test_what_is_no_announcement(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        decode(json.dumps(GOOD | changed).encode())


async def answering(reply: bytes) -> tuple[asyncio.Server, str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_an_address_of_the_command_line_is_asked() -> None:
    server, address = await answering(b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(GOOD).encode())
    async with server:
        found = await _ask(address)
    assert not isinstance(found, str) and found.name == "clicks"


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_001,
        b"SSH-2.0-OpenSSH\r\n",
        b"x" * 20_000,
        b"",
    ],
)
async def test_what_is_no_pipeline_is_said(reply: bytes) -> None:
    server, address = await answering(reply)
    async with server:
        assert await _ask(address) == "what answers there is no pipeline of this version of Ottla"


async def test_addresses_that_are_none() -> None:
    for address in ("", "host", "host:", ":1", "host:x", "host:70000"):
        assert str(await _ask(address)).startswith("it is HOST:PORT")
    assert str(await _ask("127.0.0.1:1")).startswith("cannot be reached")
