"""The store as a process of its own: killed, and refused its port or its folder."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

from ottla.metadata.store import SessionState
from ottla.runtime import system_runtime
from ottla.zk.client.store import ZooKeeperClient
from tests.support.zk.polling import until


def run_server(*arguments: str) -> subprocess.Popen[str]:
    code = "from ottla.cli.zookeeper import command; command()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
