"""Records in a simulated cluster: topics, who writes and reads them, and what must hold of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.metadata.znodes import BrokerIdZnode, LeaderAndIsr, TopicPartitionStateZnode
from ottla.simulation.data_clients import MIN_ISR, Mover, Producer, Reader, create_topics
from ottla.simulation.group_member import Member
from ottla.simulation.pipelined_producer import PipelinedProducer
from ottla.simulation.stage import Stage
from ottla.simulation.workload import Topic
from ottla.types import TopicPartition
from ottla.wire import records

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.process.node import Node
    from ottla.runtime import Runtime
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.ledger import Ledger
    from ottla.simulation.loop import Process
    from ottla.simulation.scenario import DataPlan
    from ottla.simulation.workload import Expectations
    from ottla.storage.log.log import Log

_READ_BYTES = 1024 * 1024
_WRITERS = ("producer", "pipeline", "mover")


class Data:
    """`start` begins everything, `end` tells the producers to stop; in between it looks at logs.

    It runs the clients, compares what they and the replicas have, and says which broker may lose
    its power without a record being lost.
    """

    def __init__(
        self, cluster: SimCluster, plan: DataPlan, seed: str, *, ledger: Ledger | None = None
    ) -> None:
        self.cluster = cluster
        self.stage = Stage(
            plan,
            seed,
            bootstrap=cluster.bootstrap,
            broker_ids=cluster.broker_ids,
            trace=cluster.trace,
            violated=cluster.history.violated,
            ledger=ledger,
        )
        self._readers: dict[str, Reader] = {}
        self._writers: list[asyncio.Task[None]] = []
        self._others: list[asyncio.Task[None]] = []
        # (broker, its start, partition) -> the log has been looked at up to here.
        self._looked_at: dict[tuple[int, int, TopicPartition], int] = {}

    @property
    def client_names(self) -> list[str]:
        """The hosts that clients run on."""
        if not self.stage.topics:
            return []
        plan = self.stage.plan
        kinds = {
            "producer": plan.producers,
            "pipeline": plan.pipelines,
            "reader": plan.readers,
            "mover": plan.movers,
        }
        names = [f"{kind}-{number}" for kind, count in kinds.items() for number in range(count)]
        return names + [
            f"{group}-{n}" for group in self.stage.groups for n in range(self.stage.plan.members)
        ]

    # running

    async def start(self, expected: Expectations) -> None:
        if not self.stage.topics:
            return
        process, runtime = self.cluster.begin("maker")
        await self.cluster.run_on(process, create_topics(self.stage, runtime, self.stage.topics))
        for name in self.stage.topics:
            topic = expected.topics[name] = Topic()
            topic.begin(self.stage.plan.partitions, {"min.insync.replicas": str(MIN_ISR)})
        for name in self.client_names:
            process, runtime = self.cluster.begin(name)
            self._begin(name, process, runtime)

    def _begin(self, name: str, process: Process, runtime: Runtime) -> None:
        kind, _, _ = name.rpartition("-")
        tasks = self._writers if kind in _WRITERS else self._others
        tasks.append(self.cluster.run_on(process, self._work(name, kind, runtime)))

    def _work(self, name: str, kind: str, runtime: Runtime) -> Coroutine[Any, Any, None]:
        if kind == "producer":
            return Producer(self.stage, name, runtime).run()
        if kind == "pipeline":
            return PipelinedProducer(self.stage, name, runtime).run()
        if kind == "reader":
            reader = self._readers[name] = Reader(self.stage, name, runtime)
            return reader.run()
        if kind == "mover":
            return Mover(self.stage, name, runtime).run()
        return Member(self.stage, name, kind, runtime).run()

    def end(self) -> None:
        """Producers finish what they have begun; the others read to the end."""
        self.stage.is_ending = True

    @property
    def is_written(self) -> bool:
        return all(task.done() for task in self._writers)

    def raise_failures(self) -> None:
        for task in (*self._writers, *self._others):
            if task.done():
                task.result()

    # what a look from outside shows

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Takes in what replicas hold below their high watermarks since the last look."""
        for node in nodes:
            starts = self.cluster.broker_host(node.broker_id).starts
            for tp in self.stage.partitions:
                log = _log(node, tp)
                if log is not None:
                    self._take_in(node.broker_id, starts, tp, log)

    def _take_in(self, broker_id: int, starts: int, tp: TopicPartition, log: Log) -> None:
        key = (broker_id, starts, tp)
        position = min(self._looked_at.get(key, 0), log.end_offset)
        for start, data in committed_batches(log, position):
            self.stage.ledger.in_log(f"broker-{broker_id}", tp, start, data)
        self._looked_at[key] = max(position, log.high_watermark)

    # the promise: records outlive one broker's power cut

    def covers(self, name: str) -> bool:
        """Whether all brokers are up and everything that is committed is held by another one.

        Once the ISR has shrunk to one broker, that broker's power is not covered (as in Kafka:
        KIP-966, the last replica standing), nor is a second failure that comes before a controller
        has seen the first: it cannot tell which of the two lost records.
        """
        victim = _broker_id(name)
        if self.cluster.engine is None or any(
            self._registration(broker_id) is None or broker_id not in self.cluster.nodes
            for broker_id in self.cluster.broker_ids
        ):
            return False
        for tp, hosted in self._hosted().items():
            found = self._state(tp)
            if found is None or not _is_held(found[0], victim, hosted):
                return False
        return True

    def loses_power(self, name: str) -> Callable[[], bool]:
        victim, before = _broker_id(name), self._registration(_broker_id(name))

        def noticed() -> bool:
            now = self._registration(victim)
            if self.cluster.engine is None or now == before:
                return False
            for tp in self._hosted():
                found = self._state(tp)
                if found is not None and victim in found[0].isr and (now is None or found[1] < now):
                    return False
            return True

        return noticed

    def _registration(self, broker_id: int) -> int | None:
        engine = self.cluster.engine
        znode = engine.tree.nodes.get(BrokerIdZnode.path(broker_id)) if engine else None
        return None if znode is None else znode.stat().czxid

    def _state(self, tp: TopicPartition) -> tuple[LeaderAndIsr, int] | None:
        """Leader and ISR as stored, and the zxid of the write."""
        engine = self.cluster.engine
        znode = engine.tree.nodes.get(TopicPartitionStateZnode.path(tp)) if engine else None
        if znode is None:
            return None
        state = TopicPartitionStateZnode.decode(znode.data, znode.stat())
        return None if state is None else (state, znode.stat().mzxid)

    def _hosted(self) -> dict[TopicPartition, dict[int, Log]]:
        found: dict[TopicPartition, dict[int, Log]] = {tp: {} for tp in self.stage.partitions}
        for broker_id, node in self.cluster.nodes.items():
            for partition in node.parts.replica_manager.partitions:
                if partition.log is not None:
                    found.setdefault(partition.tp, {})[broker_id] = partition.log
        return found

    # the end

    def problems(self) -> Iterator[str]:
        """Once nothing fails any more: every replica and every reader has everything."""
        if not self.stage.topics:
            return
        self.look_at(self.cluster.nodes.values())
        logs = {}
        for tp, hosted in self._hosted().items():
            if tp in self.stage.partitions:
                end = self.stage.ledger.ends.get(tp, 0)
                bounds = {i: (log.high_watermark, log.end_offset) for i, log in hosted.items()}
                if any(bound != (end, end) for bound in bounds.values()):
                    yield f"{tp} ends at {end}, but (high watermark, end) are {bounds}"
                # Replicas have been compared already: one of them is enough.
                logs[tp] = [
                    data for log in [*hosted.values()][:1] for _, data in committed_batches(log, 0)
                ]
        yield from self.stage.ledger.problems(logs)
        for tp in self.stage.partitions:
            end = self.stage.ledger.ends.get(tp, 0)
            for name, reader in self._readers.items():
                if reader.positions[tp] != end:
                    yield f"{name} is at {reader.positions[tp]} of {end} in {tp}"
            for group in self.stage.groups:
                committed = self.stage.ledger.committed_offset(group, tp)
                if committed != end:
                    yield f"{group} has committed {committed} of {end} in {tp}"


def _broker_id(name: str) -> int:
    return int(name.removeprefix("broker-"))


def _log(node: Node, tp: TopicPartition) -> Log | None:
    partition: Partition | None = node.parts.replica_manager.partitions.get(tp)
    return None if partition is None else partition.log


def committed_batches(log: Log, position: int) -> Iterator[tuple[int, memoryview]]:
    """The batches from `position` on, below the high watermark, and where they should begin."""
    end = log.high_watermark
    while position < end:
        data = log.read(position, _READ_BYTES, end, min_one_batch=True)
        yield position, data
        position = [header.next_offset for header, _ in records.iter_batches(data)][-1]


def _is_held(state: LeaderAndIsr, victim: int, hosted: dict[int, Log]) -> bool:
    committed = max((log.high_watermark for log in hosted.values()), default=0)
    others = [broker_id for broker_id in state.isr if broker_id != victim]
    return bool(others) and all(
        broker_id in hosted and hosted[broker_id].end_offset >= committed for broker_id in others
    )
