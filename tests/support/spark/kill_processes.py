"""A Spark driver as a family of processes: finds its JVM and its Python workers, kills some."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.support.spark import kill_driver

WAIT_S = 180.0
# What came in while others were killed is read to its end first, in many small batches.
DRAIN_WAIT_S = 900.0
LOST_TASK = re.compile(r"Lost task .* in stage ")
STARTED = re.compile(r"^driver: streams are running$", re.MULTILINE)
REFUSED = re.compile(r"is older than micro-batch \d+, which was written before")
DAEMON = "pyspark.daemon"
FAILED_QUERY = re.compile(r"driver: copy failed|Query archive .* terminated with error")


class Process(NamedTuple):
    """A process, told from a later one with the same number by the time of its start."""

    pid: int
    parent: int
    started: int
    command: str

    @property
    def is_alive(self) -> bool:
        now = look_at(self.pid)
        return now is not None and now.started == self.started

    def kill(self) -> None:
        if self.is_alive:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was faster


def look_at(pid: int) -> Process | None:
    """None where there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, IndexError):
        return None
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[19]), command)


def family(pid: int) -> list[Process]:
    """A process and all that descend from it, parents first."""
    everybody = [p for p in map(look_at, _pids()) if p is not None]
    found = [p for p in everybody if p.pid == pid]
    known = {p.pid for p in found}
    while True:
        more = [p for p in everybody if p.parent in known and p.pid not in known]
        if not more:
            return found
        found += more
        known |= {p.pid for p in more}


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


class Driver:
    """One driver after the other with the same checkpoints. Nothing of any outlives `with`."""

    def __init__(self, settings: kill_driver.Settings) -> None:
        self._folder = Path(settings.folder)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._everybody: set[Process] = set()
        self.log = self._folder / "driver.log"
        self._streams_before = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._remember()
            for process in self._everybody:
                process.kill()
            self._process.wait()
        self.await_nobody_left()

    def start(self, cores: int) -> None:
        """Returns at once: the session takes several seconds to come up."""
        # One that is killed while it starts never says so.
        self._streams_before = self.count(STARTED) if self.log.exists() else 0
        settings = self._folder / "settings.json"
        kill_driver.Settings(**{**vars(self._settings), "cores": cores}).save(settings)
        command = [sys.executable, kill_driver.__file__, str(settings)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def check(self) -> None:
        """Only the test ends drivers."""
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the driver ended by itself with {code}:\n{self.tail()}"

    def kill(self) -> None:
        """`kill -9` of the driver and its JVM at once. Python workers are left to find out."""
        assert self._process is not None
        self._remember()
        for process in family(self._process.pid):
            if not is_worker(process):
                process.kill()
        self._process.wait()

    def kill_workers(self, choice: random.Random) -> None:
        """One or all of the Python workers, again and again until Spark has lost a task by it:
        workers are idle most of the time."""
        kill_all = choice.random() < 0.5
        # The worker that looks for data sources is asked once: without it there is no query.
        self.await_streams()
        deadline = time.monotonic() + WAIT_S
        lost = self._lost()
        while self._lost() == lost:
            self.check()
            assert time.monotonic() < deadline, f"no task was lost:\n{self.tail()}"
            workers = self.workers()
            for victim in workers if kill_all else choice.sample(workers, min(1, len(workers))):
                victim.kill()
            time.sleep(0.1)

    def workers(self) -> list[Process]:
        """Those that run tasks, forked by `pyspark.daemon`, and those that plan the sources."""
        self._remember()
        assert self._process is not None
        tree = [p for p in family(self._process.pid) if is_worker(p)]
        everybody = {p.pid for p in tree}
        return [p for p in tree if DAEMON not in p.command or p.parent in everybody]

    @property
    def checkpoint(self) -> Path:
        return self._folder / "checkpoint-copy"

    def await_that(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            self.check()
            assert time.monotonic() < deadline, f"{otherwise}:\n{self.tail()}"
            time.sleep(0.1)

    def await_streams(self) -> None:
        """A driver that has just been started takes several seconds, and SIGTERM ends it then."""
        self.await_that(lambda: self.count(STARTED) > self._streams_before, "no streams")

    def finish(self) -> None:
        """Lets it read to the end and waits for it."""
        assert self._process is not None
        self.await_streams()
        self._remember()
        self._process.terminate()
        try:
            code = self._process.wait(DRAIN_WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not end:\n{self.tail()}") from None
        assert code == 0, f"the driver ended with {code}:\n{self.tail()}"

    def await_nobody_left(self) -> None:
        """Workers whose JVM was killed end by themselves."""
        deadline = time.monotonic() + WAIT_S
        while any(process.is_alive for process in self._everybody):
            if time.monotonic() > deadline:
                for process in self._everybody:
                    process.kill()
                raise AssertionError("Python workers outlived their driver")
            time.sleep(0.05)

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-60:])

    def _lost(self) -> int:
        return self.count(LOST_TASK) + self.count(FAILED_QUERY)

    def count(self, pattern: re.Pattern[str]) -> int:
        return len(pattern.findall(self.log.read_text(errors="replace")))

    def _remember(self) -> None:
        # The number of a process that has ended may be somebody else's by now.
        if self._process is not None and self._process.poll() is None:
            self._everybody |= set(family(self._process.pid))


def is_worker(process: Process) -> bool:
    # Daemons of `session()` are started with `-c` and name what they stand for.
    return " -m pyspark." in process.command or DAEMON in process.command
