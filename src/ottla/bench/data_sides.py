"""The clusters that `ottla bench data` compares, and what their processes cost.

Apache Kafka runs as its own scripts start it: the heap and the collector of kafka-server-start.sh,
broker and controller in one process (KRaft). Ottla runs as `ottla up` starts it. On both sides the
group coordinator waits for nobody (group.initial.rebalance.delay.ms=0), everything else is default.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from ottla.bench.start import resident_mb
from ottla.process.data_folder import pid_path
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import (
    HOST,
    JavaServer,
    PeerFailed,
    brokers_known,
    free_port,
    java_command,
    run_tool,
)

PEER_JARS = "kafka-4.1"
# What kafka-run-class.sh and kafka-server-start.sh hand to the JVM.
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)
SERVER_HEAP = ("-Xmx1G", "-Xms1G")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """CPU seconds so far and resident memory now, of all processes of one side."""

    cpu_s: float
    memory_mb: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


class TlsListener(NamedTuple):
    port: int
    broker_properties: Mapping[str, str]
    client_config: Path


class DataSide(ABC):
    """A cluster whose data outlives its processes, until `close`."""

    title: str

    def __init__(
        self, brokers: int, overrides: Mapping[str, str] | None = None, *, tls: bool = False
    ) -> None:
        """With `tls` there is a listener more, for one broker: that is where the load goes."""
        self.brokers = brokers
        self._overrides = dict(overrides or {})
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-bench-data-"))
        self._tls = self._make_tls() if tls else None

    def _make_tls(self) -> TlsListener:
        from ottla.testing.certificates import Certificates  # needs the package cryptography

        certificates = Certificates(self._folder / "tls")
        config = self._folder / "client.properties"
        given = certificates.client_properties()
        config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        return TlsListener(free_port(), certificates.broker_properties(), config)

    @property
    def load_servers(self) -> str:
        """Where clients that are measured connect."""
        return self.bootstrap_servers if self._tls is None else f"{HOST}:{self._tls.port}"

    @property
    def client_config(self) -> Path | None:
        """A property file for them; None where they need none."""
        return None if self._tls is None else self._tls.client_config

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    @abstractmethod
    def pids(self) -> Sequence[int]:
        """Everything that the cluster consists of, its metadata store included."""

    @abstractmethod
    def launch(self) -> None:
        """Starts the processes on whatever the data folder holds; may return before they serve."""

    @abstractmethod
    def await_up(self) -> None:
        """Returns when every broker is known."""

    @abstractmethod
    def kill(self) -> None:
        """`kill -9` for all of them; the data stays."""

    def start(self) -> Self:
        try:
            self.launch()
            self.await_up()
        except BaseException:
            self.close()
            raise
        return self

    def logs(self, topic: str = "*") -> list[Path]:
        """The files with its records, in the order of their offsets."""
        return sorted(self._folder.rglob(f"{topic}-*/*.log"))

    def uncache(self) -> None:
        """Lets the page cache go of what was synced. Pages that nobody used yet cost a virtual
        machine 10 µs each, five times as much as others: without this, the later rounds of a
        large load pay for memory and not for brokers."""
        for path in self._folder.rglob("*.log"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def wipe(self) -> None:
        """Ends the processes and begins with an empty folder again."""
        self.kill()
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def usage(self) -> Usage:
        pids = self.pids()
        return Usage(sum(map(cpu_seconds, pids)), sum(map(resident_mb, pids)))


class OttlaData(DataSide):
    """`ottla up`: one broker shares its process with the store, several have a store beside."""

    title = "Ottla"
    _cluster: ProcessCluster | None = None
    _pids: Sequence[int] = ()

    @property
    def _running(self) -> ProcessCluster:
        if self._cluster is None:
            raise PeerFailed("Ottla was not started")
        return self._cluster

    @property
    def bootstrap_servers(self) -> str:
        return self._running.bootstrap_servers

    def pids(self) -> Sequence[int]:
        return self._pids

    def launch(self) -> None:
        # Returns with the ready line: the time of a start includes it.
        self._cluster = ProcessCluster(
            brokers=self.brokers, data=self._folder, overrides=self._overrides
        )
        if self._tls is not None:
            self._add_listener(self._cluster, self._tls)
        self._cluster.start()
        names = [f"broker-{number}" for number in range(self.brokers)]
        if self.brokers > 1:
            names.append("store")
        self._pids = [int(pid_path(self._folder, name).read_text()) for name in names]

    @staticmethod
    def _add_listener(cluster: ProcessCluster, tls: TlsListener) -> None:
        both = f"PLAINTEXT://{cluster.bootstrap_servers},SSL://{HOST}:{tls.port}"
        more = {"listeners": both, "advertised.listeners": both, **tls.broker_properties}
        options = cluster.options
        cluster.options = replace(options, overrides={**options.overrides, **more})

    def await_up(self) -> None:
        """The ready line said so."""

    def kill(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        for pid in self._pids:
            # One that ended by itself is not there any more.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._pids = []
        cluster.stop()


class KraftData(DataSide):
    """Apache Kafka 4.1, every node broker and controller."""

    title = "Apache Kafka 4.1"

    def __init__(
        self, brokers: int, overrides: Mapping[str, str] | None = None, *, tls: bool = False
    ) -> None:
        super().__init__(brokers, overrides, tls=tls)
        self._servers = self._prepare()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{server.port}" for server in self._servers)

    def pids(self) -> Sequence[int]:
        return [server.pid for server in self._servers]

    def launch(self) -> None:
        for server in self._servers:
            server.start()

    def await_up(self) -> None:
        for server in self._servers:
            server.await_ready(lambda port: brokers_known(port) == self.brokers)

    def kill(self) -> None:
        for server in self._servers:
            server.stop(signal.SIGKILL)

    def wipe(self) -> None:
        super().wipe()
        self._servers = self._prepare()

    def _prepare(self) -> list[JavaServer]:
        """Formats the folders, which is not part of a start."""
        ports = [(free_port(), free_port()) for _ in range(self.brokers)]
        voters = ",".join(f"{i}@{HOST}:{controller}" for i, (_, controller) in enumerate(ports))
        return [self._node(node, *pair, voters) for node, pair in enumerate(ports)]

    def _node(self, node: int, port: int, controller_port: int, voters: str) -> JavaServer:
        replicas = str(min(3, self.brokers))
        open_to_clients = f"PLAINTEXT://{HOST}:{port}"
        if self._tls is not None:
            open_to_clients += f",SSL://{HOST}:{self._tls.port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{open_to_clients},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": open_to_clients,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
            "log.dirs": str(self._folder / f"data-{node}"),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **({} if self._tls is None else self._tls.broker_properties),
            **self._overrides,
        }
        config = self._folder / f"node-{node}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        made = run_tool(
            *(PEER_JARS, "kafka.tools.StorageTool", "format"),
            *("--cluster-id", CLUSTER_ID, "--config", str(config)),
        )
        if made.returncode != 0:
            raise PeerFailed(f"Apache Kafka's folder was not made: {made.stderr[-1000:]}")
        command = [*java_command(PEER_JARS, "kafka.Kafka", (*SERVER_HEAP, *JVM_FLAGS))]
        log = self._folder / f"node-{node}.log"
        return JavaServer(f"Apache Kafka node {node}", [*command, str(config)], port, log)
