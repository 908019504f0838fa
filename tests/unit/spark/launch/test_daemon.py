"""Spark's daemon that imports before it forks, run as Spark runs it."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch.daemon import without_farewell

pytest.importorskip("pyspark", reason="PySpark is not installed")

_MAPPED = "/proc/{}/maps"


def test_a_worker_begins_with_everything_imported() -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-m", "ottla.spark.launch.daemon", "pyspark.worker"],
        env={**os.environ, "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER", "SPARK_REUSE_WORKER": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert daemon.stdin is not None and daemon.stdout is not None
    try:
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port), timeout=30) as channel:
            (worker,) = struct.unpack(">i", channel.recv(4, socket.MSG_WAITALL))
            # It has been told nothing yet, not even its secret.
            libraries = Path(_MAPPED.format(worker)).read_text()
        assert "libarrow" in libraries and "/pandas/" in libraries
    finally:
        daemon.stdin.close()  # that is how Spark ends it
        daemon.wait(30)


_CODE = """
import os, sys
from ottla.spark.launch.daemon import preload
preload("numpy", "no.such.module", "prints.and_raises")
import gc, numpy
assert gc.get_freeze_count() > 1000
for _ in range(2):
    pid = os.fork()
    if not pid:
        print(numpy.random.rand(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_workers_draw_numbers_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "prints").mkdir()
    (tmp_path / "prints" / "and_raises.py").write_text("print('a port?')\nraise RuntimeError")
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        env={**os.environ, "PYTHONPATH": ":".join([*sys.path, str(tmp_path)])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, second = done.stdout.split()
    assert first != second


def test_a_worker_whose_socket_is_closed_goes_without_a_word() -> None:
    ours, theirs = socket.socketpair()

    def says_goodbye(channel: socket.socket, authenticated: bool) -> int:
        while True:  # until it is noticed
            channel.send(b"goodbye")

    theirs.close()
    assert without_farewell(says_goodbye)(ours, True) == 1
    ours.close()


def test_what_a_worker_returns_or_raises_is_left_as_it_is() -> None:
    def fails(channel: socket.socket, authenticated: bool) -> int:
        raise OSError(28, "No space left on device")

    one, other = socket.socketpair()
    with one, other:
        assert without_farewell(lambda *_: 7)(one, True) == 7
        with pytest.raises(OSError, match="No space"):
            without_farewell(fails)(one, True)
