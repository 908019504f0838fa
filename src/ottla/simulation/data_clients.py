"""Clients that write and read records: the real producer and reader, with a ledger beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.admin.client import Admin
from ottla.client.admin.types import ElectionType, NewTopic
from ottla.client.cluster import Cluster, response_error
from ottla.client.fetch import FetchedData, FetchedRecord, RecordReader
from ottla.client.produce import TopicProducer
from ottla.errors import ErrorCode, KafkaError
from ottla.simulation.stage import EXPECTED
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.records import Record

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.simulation.stage import Stage

_TIMEOUT_MS = 12_000.0
_MAX_BATCH = 4
_PAUSE_S = 0.5
MIN_ISR = 2
_ELECT_SHARE = 0.3


class CheckedReader(RecordReader):
    """Notes every record it is given, and under which high watermark."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        cluster: Cluster,
        positions: dict[TopicPartition, int],
        least_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        super().__init__(cluster, positions, timeout_ms=_TIMEOUT_MS, least_epochs=least_epochs)
        self._ledger = stage.ledger
        self._name = name

    def _take(self, answer: Any) -> list[FetchedData]:
        for topic in answer.responses if answer is not None else ():
            for data in topic.partitions:
                if data.records:
                    tp = TopicPartition(topic.topic, data.partition_index)
                    for header, _ in records.iter_batches(data.records):
                        self._ledger.read(self._name, tp, header.last_offset, data.high_watermark)
        return super()._take(answer)

    def _records(self, partition: TopicPartition, data: Any) -> list[FetchedRecord]:
        found = super()._records(partition, data)
        for record in found:
            self._ledger.seen(self._name, record.partition, record.offset, record.value or b"")
        return found

    def _meet(self, partition: TopicPartition, data: Any) -> None:
        """Stale metadata can lead to a former leader, whose log may be shorter."""
        if response_error(data.error_code).code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._moved.add(partition)
        else:
            super()._meet(partition, data)


async def create_topics(stage: Stage, runtime: Runtime, names: Sequence[str]) -> None:
    """Until they are all there."""
    plan = stage.plan
    async with Cluster(runtime, stage.bootstrap, client_id="maker") as cluster:
        admin = Admin(cluster, timeout_ms=_TIMEOUT_MS)
        wanted = {
            name: NewTopic(
                name, plan.partitions, plan.replicas, configs={"min.insync.replicas": str(MIN_ISR)}
            )
            for name in names
        }
        while wanted:
            try:
                results = await admin.create_topics(list(wanted.values()))
            except KafkaError:
                await asyncio.sleep(_PAUSE_S)
                continue
            for name, result in results.items():
                if (
                    not isinstance(result, KafkaError)
                    or result.code is ErrorCode.TOPIC_ALREADY_EXISTS
                ):
                    wanted.pop(name, None)


class Producer:
    """Small batches to random partitions; after a failure a new producer id and new records."""

    def __init__(self, stage: Stage, name: str, runtime: Runtime) -> None:
        self._stage = stage
        self._name = name
        self._runtime = runtime
        self._random = stage.random_of(name)
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._lives = 0

    async def run(self) -> None:
        while not self._stage.is_ending:
            self._lives += 1
            topic = self._random.choice(self._stage.topics)
            producer = TopicProducer(self._cluster, topic, rng=self._random, timeout_ms=_TIMEOUT_MS)
            try:
                await producer.start()
                await self._produce(producer, topic, f"{self._name}.{self._lives}".encode())
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
                if error.code not in EXPECTED:
                    self._stage.violated(f"{self._name} was told {error.code.name}: {error}")
                await asyncio.sleep(_PAUSE_S)
        await self._cluster.close()

    async def _produce(self, producer: TopicProducer, topic: str, name: bytes) -> None:
        number = 0
        while not self._stage.is_ending:
            await asyncio.sleep(self._random.uniform(*self._stage.plan.pause_ms) / 1000)
            values: dict[TopicPartition, list[bytes]] = {}
            for _ in range(self._random.randint(1, _MAX_BATCH)):
                partition = self._random.randrange(self._stage.plan.partitions)
                value = b"%b/%d" % (name, number)
                number += 1
                values.setdefault(TopicPartition(topic, partition), []).append(value)
                record = Record(None, value, self._runtime.clock.now_ms())
                await producer.send(record, partition)
            await producer.flush()
            for tp, stored in values.items():
                self._stage.ledger.acknowledged(tp, stored)
            self._stage.note(self._name, f"stored up to {number}")


class Reader:
    """Reads all partitions from their beginning to wherever they end."""

    def __init__(self, stage: Stage, name: str, runtime: Runtime) -> None:
        self._stage = stage
        self._name = name
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        positions = dict.fromkeys(stage.partitions, 0)
        self._reader = CheckedReader(stage, name, self._cluster, positions)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self._reader.positions

    async def run(self) -> None:
        while True:
            try:
                found = await self._reader.poll()
                if found:
                    self._stage.note(self._name, f"{len(found)} records")
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
                await asyncio.sleep(_PAUSE_S)


class Mover:
    """Gives partitions other replicas, and preferred leaders, while they are written and read."""

    def __init__(self, stage: Stage, name: str, runtime: Runtime) -> None:
        self._stage = stage
        self._name = name
        self._random = stage.random_of(name)
        cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._admin = Admin(cluster, timeout_ms=_TIMEOUT_MS)

    async def run(self) -> None:
        while not self._stage.is_ending:
            await asyncio.sleep(self._random.uniform(*self._stage.plan.moves_ms) / 1000)
            tp = self._random.choice(self._stage.partitions)
            ids = list(self._stage.broker_ids)
            target = self._random.sample(ids, self._stage.plan.replicas)
            try:
                if self._random.random() < _ELECT_SHARE:
                    await self._admin.elect_leaders(ElectionType.PREFERRED, [tp])
                    self._stage.note(self._name, f"{tp}: preferred leader")
                    continue
                error = (await self._admin.alter_reassignments({tp: target}))[tp]
                self._stage.note(self._name, f"{tp} to {target}: {error!r}")
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
        await self._admin.close()
