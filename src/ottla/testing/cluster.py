"""Clusters for tests.

`Cluster` runs its brokers and its store inside the test process, on one background thread: it is
up in a fraction of a second. `ProcessCluster` is `ottla up` as a child process, one process per
broker, for tests that need `kill -9`. Both listen on free ports of the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from ottla.config.definitions import format_properties
from ottla.errors import OttlaError
from ottla.process.data_folder import config_path, pid_path, write_private
from ottla.process.up_options import HOST, UpOptions, broker_properties
from ottla.testing.running import Running

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.process.node import Node
    from ottla.testing.certificates import Certificates
    from ottla.zk.server.server import ZooKeeperServer

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0  # longer than the supervisor waits for its brokers
_POLL_S = 0.02
_PORTS = (11_000, 32_000)

Setting = str | int | float | bool


class ClusterError(OttlaError):
    """The cluster did not do what the test asked for."""


def free_ports(count: int) -> int:
    """The first of `count` consecutive ports that were free a moment ago.

    Below the range from which the system takes ports for outgoing connections: a client that
    tries again and again to reach a dead broker there would one day connect to itself.
    """
    for _ in range(100):
        first = random.randrange(*_PORTS)
        if all(_is_free(first + i) for i in range(count)):
            return first
    raise ClusterError(f"found no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def property_text(value: Setting) -> str:
    """As server.properties has it: `true` and not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _certificates(folder: Path) -> Certificates:
    from ottla.testing.certificates import Certificates  # needs the package cryptography

    return Certificates(folder)


def _tls_properties(certificates: Certificates) -> dict[str, str]:
    return {"security.inter.broker.protocol": "SSL", **certificates.broker_properties()}


class _ClusterBase(Running):
    """Ports, data folder, topics and the context manager that both kinds share."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: Path | None = None,
        overrides: Mapping[str, Setting] | None = None,
        tls: bool = False,
        racks: Sequence[str] = (),
        console: bool = False,
    ) -> None:
        """With `tls` the brokers speak TLS with each other and with clients, with certificates made
        for this cluster; `client_properties` is what a client needs. `racks` are those of the
        brokers in turn. With `console` a `ProcessCluster` serves the web console, too."""
        self._owns_data = data is None
        folder = data or Path(tempfile.mkdtemp(prefix="ottla-"))
        self.certificates = _certificates(folder / "tls") if tls else None
        first_port = free_ports(brokers + 2 if console else brokers + 1)
        self.options = UpOptions(
            brokers=brokers,
            port=first_port + 1,
            zookeeper_port=first_port,
            data=folder,
            racks=tuple(racks),
            console_port=first_port + brokers + 1 if console else None,
            # Off as in `ottla broker`: tests that list topics expect only their own.
            overrides={"ottla.lifecycle.topic.enable": "false"}
            | ({} if self.certificates is None else _tls_properties(self.certificates))
            | {name: property_text(value) for name, value in (overrides or {}).items()},
        )

    @property
    def bootstrap_servers(self) -> str:
        return self.options.bootstrap_servers

    @property
    def zookeeper(self) -> str:
        return self.options.zookeeper_connect

    @property
    def console(self) -> str | None:
        """The address of the web console, where there is one."""
        port = self.options.console_port
        return None if port is None else f"http://{HOST}:{port}/"

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client of this cluster is told beside `bootstrap.servers`, in Kafka's names."""
        return {} if self.certificates is None else self.certificates.client_properties()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, Setting] | None = None,
    ) -> None:
        """Returns when all partitions have a leader and every broker knows of the topic. -1 is
        `default.replication.factor`."""
        from ottla.pipelines.spec_keys import TopicSpec
        from ottla.pipelines.topics import make_topic, with_admin

        settings = tuple((key, property_text(value)) for key, value in (configs or {}).items())
        spec = TopicSpec(name, partitions, replication_factor, settings)

        async def make(admin: Admin) -> None:
            await make_topic(admin, spec)
            # Whoever asks next may ask any of them.
            async with asyncio.timeout(START_TIMEOUT_S):
                left = [node.id for node in (await admin.describe_cluster()).nodes]
                while left:
                    left = [one for one in left if not await admin.topics_known_to(one, [name])]
                    await asyncio.sleep(_POLL_S if left else 0)

        with_admin(self.bootstrap_servers, self.client_properties, make)

    def _known(self, broker_id: int) -> int:
        if not 0 <= broker_id < self.options.brokers:
            raise ClusterError(
                f"there is no broker {broker_id}: this cluster has 0 to {self.options.brokers - 1}"
            )
        return broker_id

    def _remove_data(self) -> None:
        if self._owns_data:
            shutil.rmtree(self.options.data, ignore_errors=True)


class Cluster(_ClusterBase):
    """Brokers and store inside this process."""

    def start(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._nodes: dict[int, Node] = {}
        self._store: ZooKeeperServer | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla", daemon=True)
        self._thread.start()
        try:
            self._call(self._start_all(), START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._call(self._stop_all(), STOP_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)
            self._loop.close()
            self._remove_data()

    def stop_broker(self, broker_id: int) -> None:
        """A clean stop with controlled shutdown, as SIGTERM does."""
        node = self._nodes.pop(self._known(broker_id), None)
        if node is None:
            raise ClusterError(f"broker {broker_id} is stopped already")
        self._call(node.stop(), STOP_TIMEOUT_S)

    def start_broker(self, broker_id: int) -> None:
        """Starts a stopped broker again, with the data that it had."""
        if self._known(broker_id) in self._nodes:
            raise ClusterError(f"broker {broker_id} is running already")
        self._call(self._start_node(broker_id), START_TIMEOUT_S)

    def _call(self, coroutine: Coroutine[Any, Any, None], timeout_s: float) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        future.result(timeout_s)

    async def _start_all(self) -> None:
        from ottla.process import store_identity
        from ottla.runtime import system_runtime
        from ottla.zk.server.server import ZooKeeperServer

        store_identity.prepare(self.options)
        self._store = ZooKeeperServer(
            system_runtime(),
            self.options.data / "store",
            host=HOST,
            port=self.options.zookeeper_port,
            fsync=False,  # a test's metadata need not survive a power cut
        )
        await self._store.start()
        await store_identity.protect(self.options, self._store.engine)
        await asyncio.gather(*(self._start_node(i) for i in range(self.options.brokers)))

    async def _start_node(self, broker_id: int) -> None:
        from ottla.config.broker import BrokerConfig
        from ottla.process.node import Node
        from ottla.runtime import system_runtime

        config = BrokerConfig.from_properties(broker_properties(self.options, broker_id))
        node = Node(config, system_runtime())
        await node.start()
        self._nodes[broker_id] = node

    async def _stop_all(self) -> None:
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(node.stop(controlled=False) for node in nodes))
        if self._store is not None:
            await self._store.stop()


class ProcessCluster(_ClusterBase):
    """`ottla up` as a child: one process per broker, one for the store."""

    _process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        command = [sys.executable, "-m", "ottla", "up"]
        command += ["--brokers", str(self.options.brokers), "--port", str(self.options.port)]
        command += ["--zookeeper-port", str(self.options.zookeeper_port)]
        command += ["--data", str(self.options.data)]
        if self.options.racks:
            command += ["--racks", ",".join(self.options.racks)]
        if self.options.console_port is not None:
            command += ["--console", str(self.options.console_port)]
        # Passwords among them do not belong on a command line.
        settings = self.options.data / "cluster.properties"
        self.options.data.mkdir(parents=True, exist_ok=True)
        write_private(settings, format_properties(self.options.overrides))
        command += ["--config", str(settings)]
        self._restarted: dict[int, subprocess.Popen[bytes]] = {}
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed in stop
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._await_ready_line()
        return self

    def _await_ready_line(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        watchdog = threading.Timer(START_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stdout:
                if line.startswith("ready:"):
                    return
        finally:
            watchdog.cancel()
        self._errors.seek(0)
        message = self._errors.read().strip() or "no output"
        self.stop()
        raise ClusterError(f"the cluster did not start: {message}")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Brokers that were started again are not the supervisor's children: they go first, while
        # the store is still there for their controlled shutdown.
        for child in self._restarted.values():
            _end(child)
        _end(process)
        if process.stdout is not None:
            process.stdout.close()
        self._errors.close()
        self._remove_data()

    def pid(self, broker_id: int) -> int:
        if self._known(broker_id) in self._restarted:
            return self._restarted[broker_id].pid
        return int(pid_path(self.options.data, f"broker-{broker_id}").read_text())

    def _is_running(self, broker_id: int) -> bool:
        try:
            return _alive(self.pid(broker_id))
        except FileNotFoundError:  # gone with the process
            return False

    def log_dir(self, broker_id: int) -> Path:
        return self.options.data / f"broker-{broker_id}"

    def kill(self, broker_id: int) -> None:
        """`kill -9`, and waits until the process is gone."""
        self._end_broker(broker_id, signal.SIGKILL)

    def stop_broker(self, broker_id: int) -> None:
        """SIGTERM, a clean stop with controlled shutdown; waits until the process is gone."""
        self._end_broker(broker_id, signal.SIGTERM)

    def _end_broker(self, broker_id: int, how: signal.Signals) -> None:
        if not self._is_running(broker_id):
            raise ClusterError(f"broker {broker_id} is stopped already")
        pid = self.pid(broker_id)
        os.kill(pid, how)
        child = self._restarted.pop(broker_id, None)
        if child is not None:
            child.wait()
            return
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _alive(pid):
            if time.monotonic() > deadline:
                raise ClusterError(f"pid {pid} of broker {broker_id} does not end")
            time.sleep(0.01)

    def start_broker(self, broker_id: int) -> None:
        """Starts a stopped or killed broker again; returns when it accepts connections."""
        if self._is_running(broker_id):
            raise ClusterError(f"broker {broker_id} is running already")
        self.restart(broker_id)

    def restart(self, broker_id: int) -> None:
        """Starts a killed broker again; returns when it accepts connections."""
        config = config_path(self.options.data, broker_id)
        # A file of its own: lines of several processes in one file tear each other.
        with stderr_path(self.options.data, broker_id).open("ab") as errors:
            self._restarted[broker_id] = subprocess.Popen(
                [sys.executable, "-m", "ottla", "broker", "--config", str(config)],
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((HOST, self.options.port + broker_id), timeout=1),
            ):
                return
            if time.monotonic() > deadline or self._restarted[broker_id].poll() is not None:
                raise ClusterError(f"broker {broker_id} did not come back")
            time.sleep(0.05)


def stderr_path(data: Path, broker_id: int) -> Path:
    """What a broker that was started again says."""
    return data / "logs" / f"broker-{broker_id}.stderr"


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _alive(pid: int) -> bool:
    """A zombie is dead: the supervisor has yet to collect it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return False
    return state not in "ZX"
