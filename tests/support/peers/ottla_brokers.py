"""`ottla zookeeper` and `ottla broker --config` as processes of their own.

Unlike the brokers of `ottla up` they can all be down while the store lives.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from ottla.config.definitions import format_properties
from ottla.testing.java import HOST, brokers_known, free_port

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
DEFAULTS = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "10",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


@contextmanager
def ottla_zookeeper(data: Path, *more: str) -> Iterator[str]:
    """`ottla zookeeper` as a process; gives its address."""
    command = [sys.executable, "-m", "ottla", "zookeeper", "--port", "0", "--data", str(data)]
    command += more
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready: zookeeper="), ready
            yield ready.split()[1].removeprefix("zookeeper=")
        finally:
            process.terminate()


class OttlaBrokers:
    """Some brokers of a cluster; a context manager that starts and ends them."""

    def __init__(
        self,
        zookeeper: str,
        folder: Path,
        ids: Iterable[int],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.zookeeper = zookeeper
        self._folder = folder
        self._settings = {**DEFAULTS, **(settings or {})}
        self._ports = {broker_id: free_port() for broker_id in ids}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def ports(self) -> list[int]:
        return list(self._ports.values())

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def log_dir(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}"

    def pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def __enter__(self) -> Self:
        try:
            for broker_id in self._ports:
                self._spawn(broker_id)
            for broker_id in self._ports:
                self._await_ready(broker_id)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker_id in list(self._processes):
            self.kill(broker_id)

    def restart(self, broker_id: int) -> None:
        """Starts a broker that is down; returns when it knows all that run."""
        self._spawn(broker_id)
        self._await_ready(broker_id)

    def kill(self, broker_id: int) -> None:
        self.stop(broker_id, signal.SIGKILL)

    def stop(self, broker_id: int, how: signal.Signals = signal.SIGTERM) -> None:
        process = self._processes.pop(broker_id)
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}.log"

    def _spawn(self, broker_id: int) -> None:
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{self._ports[broker_id]}",
            "log.dirs": str(self.log_dir(broker_id)),
            "zookeeper.connect": self.zookeeper,
        }
        config = self._folder / f"broker-{broker_id}.properties"
        config.write_text(format_properties({**settings, **self._settings}))
        with self._log(broker_id).open("ab") as log:
            self._processes[broker_id] = subprocess.Popen(
                [sys.executable, "-m", "ottla", "broker", "--config", str(config)],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=log,
            )

    def _await_ready(self, broker_id: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while brokers_known(self._ports[broker_id]) < len(self._processes):
            ended = self._processes[broker_id].poll() is not None
            if ended or time.monotonic() > deadline:
                words = self._log(broker_id).read_text()[-2000:]
                raise AssertionError(f"broker {broker_id} did not start: {words}")
            time.sleep(0.05)
