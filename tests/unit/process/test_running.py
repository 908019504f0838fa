"""Who runs with a data folder, told by the locks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.errors import OttlaError
from ottla.process.data_folder import state_path
from ottla.process.running import answers, describe_processes, look, stop
from ottla.process.up_options import UpOptions
from ottla.runtime import FolderLock

_HOLDER = """
import sys
from pathlib import Path
from ottla.runtime import FolderLock
locks = [FolderLock(Path(folder)) for folder in sys.argv[1:]]
print("locked", flush=True)
sys.stdin.read()
"""


def _hold(*folders: Path) -> subprocess.Popen[str]:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, *map(str, folders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "locked\n"
    return process


def test_nothing_was_ever_there(tmp_path: Path) -> None:
    assert look(tmp_path / "nothing") is None


def test_locks_say_who_is_there_and_down_ends_them(tmp_path: Path) -> None:
    options = UpOptions(brokers=2, data=tmp_path)
    with _hold(tmp_path / "run") as up, _hold(tmp_path / "broker-1") as by_hand:
        state_path(tmp_path).write_text(describe_processes(options))
        cluster = look(tmp_path)
        assert cluster is not None and cluster.supervisor == up.pid
        assert {p.name: p.pid for p in cluster.processes} == {
            "store": None,
            "broker-0": None,
            "broker-1": by_hand.pid,
        }
        assert cluster.processes[1].address == "127.0.0.1:9092"
        said: list[str] = []
        stop(tmp_path, cluster, said.append)
        assert up.wait(10) == by_hand.wait(10) == -15
        assert sorted(said) == [
            f"stopping broker-1 (pid {by_hand.pid})",
            f"stopping ottla up (pid {up.pid})",
        ]
    assert look(tmp_path) is None


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("1\n")
    assert look(tmp_path) is None
    assert (tmp_path / "run" / ".lock").read_text() == "1\n"
    lock = FolderLock(tmp_path / "run")
    lock.release()
    assert (tmp_path / "run" / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_damaged_state_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    state_path(tmp_path).write_text("{")
    with pytest.raises(OttlaError, match=r"up\.json is damaged: remove it"):
        look(tmp_path)


def test_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert answers(address)
    assert not answers(address)
