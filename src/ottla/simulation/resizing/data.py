"""Records in topics that are being resized: who writes, reads and resizes, and what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Iterator
from contextvars import Context
from typing import TYPE_CHECKING, Any

from ottla.metadata.resizes import ResizeZnode
from ottla.metadata.znodes import TopicAssignment, TopicsZnode, TopicZnode
from ottla.simulation.data import Data, committed_batches
from ottla.simulation.resizing.clients import KeyedProducer, ResizedMember
from ottla.simulation.resizing.lives import LivesLedger
from ottla.simulation.resizing.resizer import Resizer
from ottla.topics.names import SHADOW_PREFIX
from ottla.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.process.node import Node
    from ottla.runtime import Runtime
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.loop import Process
    from ottla.simulation.scenario import DataPlan
    from ottla.simulation.workload import Expectations
    from ottla.storage.log.log import Log

_REST_S = 2.0


class ResizeData(Data):
    """As Data, but a topic's partitions are those of the life that the name has."""

    def __init__(self, cluster: SimCluster, plan: DataPlan, seed: str) -> None:
        self._ledger = LivesLedger(cluster.history.violated)
        super().__init__(cluster, plan, seed, ledger=self._ledger)
        self._ledger.life_of = self._topic_id
        self._probe: asyncio.Task[None] | None = None
        # (broker, its start, life, partition) -> the log has been looked at up to here.
        self._seen: dict[tuple[int, int, TopicId, int], int] = {}
        # Lives of resizers, and whether the present one is done.
        self._resizer_lives: dict[str, int] = {}
        self._done: dict[str, bool] = {}

    @property
    def client_names(self) -> list[str]:
        return [*super().client_names, *self._resizers]

    @property
    def _resizers(self) -> list[str]:
        return [f"resizer-{number}" for number in range(self.stage.plan.resizers)]

    # running

    async def start(self, expected: Expectations) -> None:
        await super().start(expected)
        for name in self.stage.topics:
            # What it has in the end is for this ledger to say.
            expected.topics[name].certain = False

    def _work(self, name: str, kind: str, runtime: Runtime) -> Coroutine[Any, Any, None]:
        if kind == "producer":
            return KeyedProducer(self.stage, self._ledger, name, runtime).run()
        if kind in self.stage.groups:
            return ResizedMember(self.stage, name, kind, runtime).run()
        return super()._work(name, kind, runtime)

    def _begin(self, name: str, process: Process, runtime: Runtime) -> None:
        if name in self._resizers:
            self._begin_resizer(name, process, runtime)
        else:
            super()._begin(name, process, runtime)

    def _begin_resizer(self, name: str, process: Process, runtime: Runtime) -> None:
        life = self._resizer_lives[name] = self._resizer_lives.get(name, 0) + 1
        number = int(name.rpartition("-")[2]) % len(self.stage.topics)
        loop = self.cluster.loop

        def doom(after_s: float) -> None:
            # Not by the process itself: it would end in the middle of its own step.
            loop.call_later(after_s, self._kill, name, life, context=Context())

        resizer = Resizer(
            self.stage,
            self._ledger,
            name,
            self.stage.topics[number],
            runtime,
            life=life,
            doom=doom,
            topic_id=self._topic_id,
        )
        self._done[name] = False
        self._others.append(self.cluster.run_on(process, self._resize(name, resizer)))

    async def _resize(self, name: str, resizer: Resizer) -> None:
        await resizer.run()
        self._done[name] = True

    def _kill(self, name: str, life: int) -> None:
        if self._resizer_lives[name] != life or self._done[name]:
            return
        # A second blow to this life comes too late.
        self._resizer_lives[name] += 1
        self.cluster.kill(name)
        self.cluster.loop.call_later(_REST_S, self._again, name, context=Context())

    def _again(self, name: str) -> None:
        self._begin_resizer(name, *self.cluster.begin(name))

    @property
    def is_written(self) -> bool:
        return super().is_written and all(self._done.values())

    # what a look from outside shows

    def look_at(self, nodes: Iterable[Node]) -> None:
        for name, topic in self._topics().items():
            if name in self.stage.topics and topic.topic_id is not None:
                self._ledger.lives(name, topic.topic_id, len(topic.partitions))
        for node in nodes:
            starts = self.cluster.broker_host(node.broker_id).starts
            for partition in node.parts.replica_manager.partitions:
                if partition.log is not None and self._is_ours(partition.tp.topic):
                    self._take_in_life(node.broker_id, starts, partition.log)

    def _is_ours(self, topic: str) -> bool:
        return topic in self.stage.topics or topic.startswith(SHADOW_PREFIX)

    def _take_in_life(self, broker_id: int, starts: int, log: Log) -> None:
        key = (broker_id, starts, log.topic_id, log.tp.partition)
        position = min(self._seen.get(key, 0), log.end_offset)
        for start, data in committed_batches(log, position):
            self._ledger.in_life(f"broker-{broker_id}", log.topic_id, log.tp.partition, start, data)
        self._seen[key] = max(position, log.high_watermark)

    def _topics(self) -> dict[str, TopicAssignment]:
        engine = self.cluster.engine
        root = engine.tree.nodes.get(TopicsZnode.path()) if engine else None
        if engine is None or root is None:
            return {}
        return {
            name: TopicZnode.decode(engine.tree.nodes[TopicZnode.path(name)].data)
            for name in root.children or ()
        }

    def _topic_id(self, name: str) -> TopicId | None:
        engine = self.cluster.engine
        znode = engine.tree.nodes.get(TopicZnode.path(name)) if engine else None
        return None if znode is None else TopicZnode.decode(znode.data).topic_id

    # the end

    def problems(self) -> Iterator[str]:
        nodes = list(self.cluster.nodes.values())
        self.look_at(nodes)
        topics = self._topics()
        yield from self._leftovers(topics, nodes)
        for name in self.stage.topics:
            if name not in topics:
                yield f"{name} is gone"
                continue
            yield from self._problems_of(name, topics[name], nodes)
        if self._probe is None:
            process, runtime = self.cluster.begin("prober")
            prober = KeyedProducer(self.stage, self._ledger, "prober", runtime)
            self._probe = self.cluster.run_on(process, prober.write_everywhere())
        if not self._probe.done():
            yield "not every partition has taken a record yet"

    def _leftovers(self, topics: dict[str, TopicAssignment], nodes: list[Node]) -> Iterator[str]:
        engine = self.cluster.engine
        entries = engine.tree.nodes.get(ResizeZnode.parent()) if engine else None
        if entries is not None and entries.children:
            yield f"still being resized: {sorted(entries.children)}"
        shadows = [name for name in topics if name.startswith(SHADOW_PREFIX)]
        if shadows:
            yield f"shadows are left: {shadows}"
        for node in nodes:
            services = node.services
            partitions = services.replica_manager.partitions
            fences: dict[str, Collection[str]] = {
                "leaders": partitions.fenced_topics,
                "readers": partitions.closed_topics,
                "transactions": services.transactions.fenced_topics,
                "offsets": services.groups.offsets.fenced_topics,
                "offsets in transactions": services.groups.in_transactions.fenced_topics,
            }
            for what, standing in fences.items():
                if standing:
                    yield f"broker {node.broker_id} has fences of {what}: {sorted(standing)}"

    def _problems_of(self, name: str, topic: TopicAssignment, nodes: list[Node]) -> Iterator[str]:
        life = self._ledger.chain[name][-1]
        logs = {}
        for number in topic.partitions:
            tp, end = TopicPartition(name, number), self._ledger.ends_of.get((life, number), 0)
            hosted = {
                node.broker_id: partition.log
                for node in nodes
                for partition in node.parts.replica_manager.partitions
                if partition.tp == tp and partition.log is not None
            }
            bounds = {i: (log.high_watermark, log.end_offset) for i, log in hosted.items()}
            if any(bound != (end, end) for bound in bounds.values()):
                yield f"{tp} ends at {end}, but (high watermark, end) are {bounds}"
            # Replicas have been compared already: one of them is enough.
            logs[number] = [
                data for log in [*hosted.values()][:1] for _, data in committed_batches(log, 0)
            ]
            yield from self._committed(tp, end, nodes)
        yield from self._ledger.problems_of(name, self.stage.groups, logs)

    def _committed(self, tp: TopicPartition, end: int, nodes: list[Node]) -> Iterator[str]:
        """What coordinators say of the groups; nothing of partitions that are not there. (What was
        stored under the name of a shadow that was given up may stay until it expires.)"""
        for group, offsets in self._group_offsets(nodes).items():
            if offsets.get(tp) != end:
                yield f"{group} has committed {offsets.get(tp)} of {end} in {tp}"
            count = self._ledger.shapes[self._ledger.chain[tp.topic][-1]]
            strange = [
                str(other)
                for other in offsets
                if other.topic == tp.topic and other.partition >= count
            ]
            if strange:
                yield f"{group} has offsets of {sorted(strange)}"

    def _group_offsets(self, nodes: list[Node]) -> dict[str, dict[TopicPartition, int]]:
        found: dict[str, dict[TopicPartition, int]] = {name: {} for name in self.stage.groups}
        for node in nodes:
            for shard in node.services.groups.registry.shards.loaded():
                for group in shard.entries.values():
                    if group.group_id in found:
                        committed = group.offsets.committed
                        found[group.group_id] = {tp: at.offset for tp, at in committed.items()}
        return found
