"""`ottla zk` on a store of Ottla: what it prints."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest

from ottla.cli import main as cli_main
from ottla.cli.data.record_text import json_data
from ottla.cli.zk.command import stat_lines, text_data
from ottla.metadata.store import Stat
from ottla.runtime import system_runtime
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.server import ZooKeeperServer

NODES = {"/a": b"one", "/a/b": b"\xff\x1b[31m", "/a/b/c": None, "/a/d": '{"ä":1}'.encode()}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server in a thread: commands bring an event loop of their own."""
    started = threading.Event()
    place: list[object] = []

    async def serve() -> None:
        server = ZooKeeperServer(system_runtime(), None, "127.0.0.1", 0)
        await server.start()
        client = await ZooKeeperClient.connect(system_runtime(), f"127.0.0.1:{server.port}")
        for path, data in NODES.items():
            await client.create(path, data)
        await client.close()
        stopped = asyncio.Event()
        place[:] = [f"127.0.0.1:{server.port}", asyncio.get_running_loop(), stopped]
        started.set()
        await stopped.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(10)
    at, loop, stopped = place
    assert isinstance(at, str) and isinstance(loop, asyncio.AbstractEventLoop)
    assert isinstance(stopped, asyncio.Event)
    yield at
    loop.call_soon_threadsafe(stopped.set)
    thread.join(10)


def run(capsys: pytest.CaptureFixture[str], address: str, *words: str) -> tuple[int, str, str]:
    code = cli_main.run(["zk", *words, "--zookeeper", address])
    return code, *capsys.readouterr()


def test_listing(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, address, "ls", "/a") == (0, "b\nd\n", "")
    assert run(capsys, address, "ls") == (0, "a\nzookeeper\n", "")
    assert run(capsys, address, "ls", "a/", "-R") == (0, "/a/b\n/a/b/c\n/a/d\n", "")
    assert run(capsys, f"{address}/a", "ls", "--output", "json") == (0, '["b", "d"]\n', "")


def test_data(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, address, "get", "/a") == (0, "one\n", "")
    assert run(capsys, address, "get", "/a/b") == (0, "\\xff\\x1b[31m\n", "")
    assert run(capsys, address, "get", "/a/b/c") == (0, "null\n", "")
    _, out, _ = run(capsys, address, "get", "-s", "/a")
    assert out.splitlines()[1].startswith("cZxid = 0x")
    _, out, _ = run(capsys, address, "get", "/a/d", "--output", "json")
    value = json.loads(out)
    assert (value["path"], value["data"]) == ("/a/d", '{"ä":1}')
    assert value["stat"]["version"] == 0


def test_watching(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, address, "watch", "/a", "--max-changes", "3")
    words = [line.split(" ", 2)[2] for line in out.splitlines()]
    assert (code, words) == (
        0,
        ["there /a one", "there /a/b \\xff\\x1b[31m", 'there /a/d {"ä":1}'],
    )
    _, out, _ = run(capsys, address, "watch", "/a", "--max-changes", "1", "--output", "json")
    value = json.loads(out)
    assert (value["change"], value["path"], value["data"]) == ("there", "/a", "one")


def test_failures_are_one_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("ls", "get"):
        assert run(capsys, address, action, "/none") == (
            1,
            "",
            "Error: metadata store: no node /none\n",
        )
    code, _, err = run(capsys, address, "ls", "/a//b")
    assert code == 1 and err == "Error: metadata store: bad arguments /a//b\n"
    code, _, err = run(capsys, "127.0.0.1:1", "ls")
    assert code == 1 and err.startswith("Error: no ZooKeeper answers at 127.0.0.1:1: ")
    assert err.count("\n") == 1


def test_bytes() -> None:
    assert text_data(b"a\nb\tc\r") == "a\nb\tc\\x0d"
    assert json_data(b"\xff") == {"base64": "/w=="}
    assert json_data(None) is None


def test_versions_and_times() -> None:
    lines = stat_lines(Stat(255, 256, 0, 1500, 7, 1, 0, -1, 3, 2, 257))
    assert lines[:5] == [
        "cZxid = 0xff",
        "ctime = 1970-01-01 00:00:00.000Z",
        "mZxid = 0x100",
        "mtime = 1970-01-01 00:00:01.500Z",
        "pZxid = 0x101",
    ]
    assert "dataVersion = 7" in lines and "ephemeralOwner = 0xffffffffffffffff" in lines
