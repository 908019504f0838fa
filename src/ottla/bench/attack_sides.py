"""The processes that `ottla bench attacks` attacks: a store and brokers, as `ottla` starts them.

What an attack costs is read from /proc: processor time, the peak of memory, the log.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ottla.errors import OttlaError
from ottla.testing.cluster import free_ports
from ottla.testing.running import Running

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Who may do nothing at all.
STRANGER, STRANGERS_PASSWORD = "stranger", "strange"
_MB = 1e6


class SideFailed(OttlaError):
    """A process did not start, or is gone."""


class Side(Running):
    """One process under attack. Its stderr, where its log goes, is a file."""

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @property
    def pid(self) -> int:
        if self._process is None:
            raise SideFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as stderr:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        watchdog = threading.Timer(START_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            assert self._process.stdout is not None
            ready = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not ready.startswith("ready:"):
            self.stop()
            raise SideFailed(f"{self.name} did not start: {self.log.read_text()[-1000:]}")
        return self

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    # what it costs

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        return self._status("VmRSS")

    def peak_mb(self) -> float:
        """The most since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        # 5 sets the high-water mark to what is resident now: proc(5).
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / _MB
        raise SideFailed(f"{self.name} has ended")

    def log_bytes(self) -> int:
        return self.log.stat().st_size


class StoreSide(Side):
    """`ottla zookeeper`."""

    def __init__(self, folder: Path) -> None:
        super().__init__("store", folder, free_ports(1))

    def command(self) -> list[str]:
        data = str(self.folder / "data")
        serve = ["zookeeper", "--port", str(self.port), "--data", data, "--no-fsync"]
        return [sys.executable, "-m", "ottla", *serve, "--tick-ms", "1000"]


class BrokerSide(Side):
    """`ottla broker`, whose listener is open to all."""

    def __init__(
        self,
        folder: Path,
        store: StoreSide,
        settings: Mapping[str, str] | None = None,
        number: int = 0,
    ) -> None:
        super().__init__(f"broker-{number}", folder, free_ports(2))
        self.number = number
        self.data = folder / "data"
        self._store = store
        self._settings = dict(settings or {})

    def properties(self) -> dict[str, str]:
        listener = f"PLAINTEXT://{HOST}:{self.port}"
        return {
            "broker.id": str(self.number),
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": str(self.data),
            "zookeeper.connect": f"{HOST}:{self._store.port}/{self.folder.name}",
            "zookeeper.session.timeout.ms": "6000",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }

    def command(self) -> list[str]:
        config = self.folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        return [sys.executable, "-m", "ottla", "broker", "--config", str(config)]


class SecuredSide(BrokerSide):
    """A broker whose clients say who they are; nobody but it has a right."""

    @property
    def clients_port(self) -> int:
        return self.port + 1

    def properties(self) -> dict[str, str]:
        both = f"INTERNAL://{HOST}:{self.port},CLIENTS://{HOST}:{self.clients_port}"
        return super().properties() | {
            "listeners": both,
            "advertised.listeners": both,
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": (
                f'{MODULE} required user_{STRANGER}="{STRANGERS_PASSWORD}";'
            ),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
