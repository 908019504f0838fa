"""The store as a process of its own: killed, and refused its port or its folder."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from ottla.cli import zookeeper
from ottla.metadata.store import Acl, CreateMode, NoAuthError, SessionState
from ottla.runtime import system_runtime
from ottla.zk.client.store import ZooKeeperClient
from ottla.zk.server.admission import MAX_CLIENT_CONNECTIONS
from ottla.zk.server.holdings import MAX_HELD_BYTES
from ottla.zk.server.options import DEFAULT_WORDS, parse_words
from ottla.zk.server.words import ALL_WORDS
from tests.support.zk.polling import until

# Of super:secret.
SUPER_DIGEST = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="


def run_server(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    code = "from ottla.cli.zookeeper import command; command()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


async def test_an_acknowledged_write_survives_kill_9(tmp_path):
    process = run_server("--port", "0", "--data", str(tmp_path / "store"))
    ready = process.stdout.readline()
    assert ready.startswith("ready: zookeeper=127.0.0.1:")
    port = int(ready.split("=127.0.0.1:")[1].split()[0])
    client = await ZooKeeperClient.connect(system_runtime(), f"127.0.0.1:{port}")
    written = await asyncio.gather(*(client.create(f"/{i}", b"x") for i in range(200)))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    await until(lambda: client.state is SessionState.SUSPENDED)
    process = run_server("--port", str(port), "--data", str(tmp_path / "store"))
    assert process.stdout.readline().startswith("ready: ")
    found = await asyncio.gather(*(client.get(f"/{i}") for i in range(200)))
    assert [stat for _, stat in found] == [stat for _, stat in written]
    await client.close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = run_server("--port", str(port), "--data", str(tmp_path))
        output, errors = process.communicate(timeout=10)
    assert (process.returncode, output) == (1, "")
    assert errors.count("\n") == 1
    assert "already in use" in errors


def test_a_damaged_store_is_one_line(tmp_path):
    (tmp_path / f"journal.{1:016x}").write_bytes(b"not a journal")
    process = run_server("--port", "0", "--data", str(tmp_path))
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert errors.count("\n") == 1
    assert "not a journal of this store" in errors


@pytest.mark.parametrize("by_file", [True, False])
async def test_the_super_user_and_nodes_that_expire_are_turned_on(tmp_path, by_file):
    arguments = ["--port", "0", "--data", str(tmp_path / "store"), "--extended-types"]
    environment = {}
    if by_file:
        (tmp_path / "digest").write_text(SUPER_DIGEST + "\n")
        arguments += ["--super-digest-file", str(tmp_path / "digest")]
    else:
        environment = {"OTTLA_SUPER_DIGEST": SUPER_DIGEST}
    process = run_server(*arguments, **environment)
    address = process.stdout.readline().split("zookeeper=")[1].split()[0]
    client = await ZooKeeperClient.connect(system_runtime(), address)
    await client.create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=60_000)
    await client.create("/closed", b"x", acl=(Acl(31, "digest", "someone:else"),))
    with pytest.raises(NoAuthError):
        await client.get("/closed")
    await client.add_auth("digest", b"super:secret")
    assert (await client.get("/closed"))[0] == b"x"
    await client.close()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, "")


def test_a_password_in_place_of_a_digest_is_one_line(tmp_path):
    process = run_server("--data", str(tmp_path), OTTLA_SUPER_DIGEST="super:secret")
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert errors.startswith("Error: OTTLA_SUPER_DIGEST: the super user's digest must be `user:`")
    assert errors.count("\n") == 1
    assert "secret" not in errors


def test_limits_and_words_are_set(tmp_path):
    process = run_server(
        *("--port", "0", "--data", str(tmp_path), "--max-client-cnxns", "1"),
        *("--4lw-commands-whitelist", "conf, srvr"),
    )
    port = int(process.stdout.readline().split("zookeeper=127.0.0.1:")[1].split()[0])

    def ask(word: bytes) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(word)
            return b"".join(iter(lambda: client.recv(4096), b"")).decode()

    assert f"clientPort={port}\n" in ask(b"conf")
    assert ask(b"ruok") == "ruok is not executed because it is not in the whitelist.\n"
    first = socket.create_connection(("127.0.0.1", port))
    second = socket.create_connection(("127.0.0.1", port), timeout=10)
    with first, second, suppress(ConnectionResetError):
        assert second.recv(1) == b""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 0
    assert errors.count("\n") == 1
    assert "127.0.0.1 has 1 connections, which is the limit (maxClientCnxns)" in errors


def test_the_limits_are_those_of_the_server():
    assert zookeeper.MAX_CLIENT_CNXNS == MAX_CLIENT_CONNECTIONS
    assert zookeeper.MAX_CLIENT_MEMORY_MB << 20 == MAX_HELD_BYTES
    assert parse_words(zookeeper.WORDS) == DEFAULT_WORDS
    assert parse_words("ruok, *") == ALL_WORDS


def test_an_unknown_word_is_one_line(tmp_path):
    process = run_server("--data", str(tmp_path), "--4lw-commands-whitelist", "ruok,none")
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert errors == (
        "Error: 'none' is no word of this store: "
        "conf, cons, envi, isro, mntr, ruok, srvr, stat, wchs\n"
    )
