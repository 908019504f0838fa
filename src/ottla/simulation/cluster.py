"""A cluster on simulated hosts: brokers, the store and clients, and what can be done to them."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Mapping
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import InvariantViolated, OttlaError
from ottla.metadata.znodes import BrokerIdZnode, ControllerZnode
from ottla.runtime import Runtime
from ottla.simulation.disk import ProcessDisk, SimDisk
from ottla.simulation.loop import Process, SimulationLoop
from ottla.simulation.network import HostNetwork, SimNetwork
from ottla.simulation.store_memory import StoreMemory
from ottla.simulation.trace import Trace
from ottla.simulation.turns import Turns
from ottla.zk.server.engine import Engine
from ottla.zk.server.records import encode_record, iter_records
from ottla.zk.server.server import ZooKeeperServer
from ottla.zk.server.tree import Trigger

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.process.node import Node
    from ottla.simulation.history import History
    from ottla.simulation.scenario import SocketPlan

T = TypeVar("T")

BROKER_PORT = 9092
STORE_PORT = 2181
STORE = "store"
# Seconds after which whoever runs the brokers starts one again that gave up.
_RESTART_S = (0.5, 3.0)
# A date to start from, so that time stamps look like time stamps.
_EPOCH_MS = 1_700_000_000_000

logger = logging.getLogger("ottla.simulation")


class SimClock:
    """Virtual time, as the Clock port."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000


class Host:
    """A machine with a disk; what runs on it comes and goes."""

    def __init__(self, name: str, disk: SimDisk) -> None:
        self.name = name
        self.disk = disk
        self.starts = 0
        self.process: Process | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None


class ObservedEngine(Engine):
    """Tells the history of every write, in the order of their zxids."""

    history: History
    memory: StoreMemory

    def _record(self, zxid: int, time_ms: int, txns: Any, triggers: list[Trigger]) -> None:
        # Some come in the journal's own format already.
        [(_, _, decoded, _)] = iter_records(encode_record(zxid, time_ms, txns), 0)
        self.history.written(zxid, decoded)
        self.memory.written(zxid, time_ms, decoded)
        super()._record(zxid, time_ms, txns, triggers)


class SimCluster:
    """The hosts of one run: brokers, the store and clients, which start, crash and lose power.

    Made inside a running SimulationLoop.
    """

    def __init__(
        self,
        loop: SimulationLoop,
        seed: str,
        trace: Trace,
        history: History,
        *,
        brokers: int,
        config: Mapping[str, str],
        snapshot_after_bytes: int,
        sockets: SocketPlan | None = None,
    ) -> None:
        self.loop = loop
        self.trace = trace
        self.history = history
        self.clock = SimClock(loop)
        self.network = SimNetwork(loop, seed, trace, sockets)
        self.broker_ids = range(brokers)
        self.nodes: dict[int, Node] = {}
        self.engine: ObservedEngine | None = None
        self._seed = seed
        self._config = dict(config)
        self._snapshot_after_bytes = snapshot_after_bytes
        self._memory = StoreMemory()
        self._hosts: dict[str, Host] = {}
        self._random = random.Random(f"{seed}/cluster")

    # hosts

    def host(self, name: str) -> Host:
        found = self._hosts.get(name)
        if found is None:
            disk = SimDisk(f"{self._seed}/{name}", self.clock.now_ms)
            found = self._hosts[name] = Host(name, disk)
        return found

    def broker_host(self, broker_id: int) -> Host:
        return self.host(f"broker-{broker_id}")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"broker-{i}:{BROKER_PORT}" for i in self.broker_ids)

    @property
    def zookeeper(self) -> str:
        return f"{STORE}:{STORE_PORT}"

    def begin(self, name: str) -> tuple[Process, Runtime]:
        """A new process on a host, and the ports it sees the world through."""
        host = self.host(name)
        if host.process is not None:
            raise InvariantViolated(f"{name} runs already")
        host.starts += 1
        process = host.process = Process(name)
        sockets = self.network.sockets
        if sockets is not None and name.startswith("broker-"):
            life = f"{self._seed}/{name}/{host.starts}"
            process.turns = Turns(self.loop, process, sockets, life)
        self.network.dark.discard(name)
        runtime = Runtime(
            self.clock,
            random.Random(f"{self._seed}/{name}/{host.starts}"),
            HostNetwork(self.network, name, process),
            ProcessDisk(host.disk, lambda: process.alive),
        )
        self.trace.add("start", name)
        return process, runtime

    def kill(self, name: str, *, power: bool = False) -> None:
        """`kill -9`; with `power` the whole machine goes dark and its disk forgets."""
        host = self.host(name)
        process = host.process
        if process is None:
            return
        self.trace.add("kill", f"{name} power={power}")
        host.process = None
        process.alive = False
        self.network.end_process(process, silently=power)
        if power:
            self.network.dark.add(name)
            host.disk.power_cut()
            if name.startswith("broker-"):
                self.history.logs.lost_power(int(name.removeprefix("broker-")))
        if name == STORE:
            self._store_gone()
        elif name.startswith("broker-"):
            self.nodes.pop(int(name.removeprefix("broker-")), None)

    def end(self) -> None:
        """The run is over: what is left of the processes is of no interest."""
        for host in self._hosts.values():
            if host.process is not None:
                host.process.alive = False

    def pause(self, name: str) -> None:
        process = self.host(name).process
        if process is not None:
            self.trace.add("pause", name)
            self.loop.pause(process)

    def resume(self, name: str) -> None:
        process = self.host(name).process
        if process is not None and process.paused:
            self.trace.add("resume", name)
            self.loop.resume(process)

    def run_on(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.loop.spawn(process, work)

    # the store

    async def start_store(self) -> None:
        process, runtime = self.begin(STORE)
        await self.run_on(process, self._run_store(runtime))

    async def _run_store(self, runtime: Runtime) -> None:
        engine = ObservedEngine(
            runtime, Path("/store"), snapshot_after_bytes=self._snapshot_after_bytes
        )
        engine.history, engine.memory = self.history, self._memory
        await engine.start()
        for difference in self._memory.restarted(engine.tree):
            self.history.violated(difference)
        self.history.restarted(engine.tree)
        server = ZooKeeperServer(
            runtime, Path("/store"), host=STORE, port=STORE_PORT, engine=engine
        )
        self.engine = engine
        await server.start()

    def _store_gone(self) -> None:
        if self.engine is not None:
            self.history.store_gone(self.engine.pipeline.durable_zxid)
            self.engine = None

    def expire_session(self, broker_id: int) -> None:
        """The store ends a broker's session, as if it had not heard of it for too long."""
        process, engine = self.host(STORE).process, self.engine
        if process is None or engine is None:
            return
        node = engine.tree.nodes.get(BrokerIdZnode.path(broker_id))
        session = engine.sessions.get(node.owner) if node is not None else None
        if session is not None:
            self.trace.add("expire", f"broker-{broker_id}")
            process.context.run(engine.expire_session, session)

    def controller_id(self) -> int | None:
        """Whoever holds /controller now."""
        node = self.engine.tree.nodes.get(ControllerZnode.path()) if self.engine else None
        return None if node is None else ControllerZnode.decode(node.data)

    # brokers

    def start_broker(self, broker_id: int) -> None:
        """Returns at once; the broker comes up, and comes up again where it gives up."""
        process, runtime = self.begin(f"broker-{broker_id}")
        self.run_on(process, self._run_broker(broker_id, process, runtime))

    def stop_broker(self, broker_id: int) -> bool:
        """SIGTERM: a controlled shutdown, then the process ends. False where none is ready."""
        node, process = self.nodes.get(broker_id), self.broker_host(broker_id).process
        if node is None or process is None:
            return False
        self.trace.add("stop", process.name)
        self.run_on(process, self._stop(broker_id, node, process))
        return True

    async def _stop(self, broker_id: int, node: Node, process: Process) -> None:
        await node.stop()
        self._ended(broker_id, process)

    async def _run_broker(self, broker_id: int, process: Process, runtime: Runtime) -> None:
        from ottla.process.node import Node

        node = Node(self._broker_config(broker_id), runtime, strict_transitions=True)
        try:
            await node.start()
            self.nodes[broker_id] = node
            self.trace.add("ready", process.name)
            if node.failed is not None:
                await asyncio.wait((node.failed,))
                node.failed.result()
        except InvariantViolated:
            raise
        except (OttlaError, OSError) as error:
            # run_broker says so in one line and ends; the supervisor starts it again.
            logger.warning("%s gives up: %r", process.name, error)
            await node.stop(controlled=False)
            self._ended(broker_id, process)
            delay_s = self._random.uniform(*_RESTART_S)
            starts = self.broker_host(broker_id).starts
            # Outside of the process that has just ended.
            self.loop.call_later(delay_s, self._start_again, broker_id, starts, context=Context())

    def _ended(self, broker_id: int, process: Process) -> None:
        if self.broker_host(broker_id).process is process:
            self.kill(process.name)

    def _start_again(self, broker_id: int, starts: int) -> None:
        host = self.broker_host(broker_id)
        if not host.is_up and host.starts == starts:
            self.start_broker(broker_id)

    def _broker_config(self, broker_id: int) -> BrokerConfig:
        from ottla.config.broker import BrokerConfig

        brokers = len(self.broker_ids)
        properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://broker-{broker_id}:{BROKER_PORT}",
            "log.dirs": "/data",
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "offsets.topic.replication.factor": str(min(3, brokers)),
            "offsets.topic.num.partitions": "3",
        }
        return BrokerConfig.from_properties(properties | self._config)
