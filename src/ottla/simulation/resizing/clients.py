"""Who write and read topics that are being resized: producers with keys, and members of groups that
look at the number of partitions again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster, response_error
from ottla.client.produce import TopicProducer
from ottla.errors import ErrorCode, KafkaError
from ottla.simulation.group_member import Member
from ottla.simulation.stage import EXPECTED
from ottla.types import TopicPartition
from ottla.wire.records import Record

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.simulation.resizing.lives import LivesLedger
    from ottla.simulation.stage import Stage

_TIMEOUT_MS = 12_000.0
_MAX_BATCH = 4
_KEYS = 12
_PAUSE_S = 0.5
# Of a producer's rounds: after it, it asks for the topic's partitions again.
_NEW_LIFE_SHARE = 0.1
_LOOK_EVERY_S = 2.0
# What numbers of partitions stay below.
_TOPIC_STEP = 1_000


async def partition_counts(cluster: Cluster, topics: list[str]) -> list[int]:
    """Raises KafkaError where a topic is not there, or cannot be looked at."""
    answer = await cluster.metadata(topics, timeout_ms=_TIMEOUT_MS)
    found = {}
    for topic in answer.topics:
        if topic.error_code:
            raise response_error(topic.error_code)
        found[topic.name] = len(topic.partitions)
    return [found[name] for name in topics]


class KeyedProducer:
    """Small batches of records with keys; their partitions are those of the last look."""

    def __init__(self, stage: Stage, ledger: LivesLedger, name: str, runtime: Runtime) -> None:
        self._stage = stage
        self._ledger = ledger
        self._name = name
        self._runtime = runtime
        self._random = stage.random_of(name)
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._lives = 0

    async def run(self) -> None:
        while not self._stage.is_ending:
            self._lives += 1
            topic = self._random.choice(self._stage.topics)
            await self._live(topic)
        await self._cluster.close()

    async def _live(self, topic: str) -> None:
        producer = TopicProducer(self._cluster, topic, rng=self._random, timeout_ms=_TIMEOUT_MS)
        name, number = f"{self._name}.{self._lives}".encode(), 0
        try:
            await producer.start()
            while not self._stage.is_ending and self._random.random() > _NEW_LIFE_SHARE:
                await asyncio.sleep(self._random.uniform(*self._stage.plan.pause_ms) / 1000)
                values = []
                for _ in range(self._random.randint(1, _MAX_BATCH)):
                    values.append(b"%b/%d" % (name, number))
                    number += 1
                    key = b"key-%d" % self._random.randrange(_KEYS)
                    await producer.send(Record(key, values[-1], self._runtime.clock.now_ms()))
                await producer.flush()
                self._ledger.stored(topic, values)
                self._stage.note(self._name, f"stored up to {number}")
        except KafkaError as error:
            self._stage.note(self._name, error.code.name)
            if error.code not in EXPECTED:
                self._stage.violated(f"{self._name} was told {error.code.name}: {error}")
            await asyncio.sleep(_PAUSE_S)

    async def write_everywhere(self) -> None:
        """A record in every partition of every topic, until each is stored."""
        left = list(self._stage.topics)
        while left:
            topic, self._lives = left[0], self._lives + 1
            producer = TopicProducer(self._cluster, topic, rng=self._random, timeout_ms=_TIMEOUT_MS)
            try:
                await producer.start()
                [count] = await partition_counts(self._cluster, [topic])
                values = [f"{self._name}.{self._lives}/{n}".encode() for n in range(count)]
                for partition, value in enumerate(values):
                    record = Record(None, value, self._runtime.clock.now_ms())
                    await producer.send(record, partition)
                await producer.flush()
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
                await asyncio.sleep(_PAUSE_S)
                continue
            self._ledger.stored(topic, values)
            left.pop(0)
        await self._cluster.close()


class ResizedMember(Member):
    """Shares the partitions that metadata tells of, and joins again when there are others."""

    def __init__(self, stage: Stage, name: str, group: str, runtime: Runtime) -> None:
        super().__init__(stage, name, group, runtime)
        self._shared: list[int] | None = None
        self._looked_s = 0.0

    async def _join(self) -> list[TopicPartition]:
        self._shared = None
        return await super()._join()

    async def _numbers(self) -> list[int]:
        self._shared = await self._look()
        return self._shared

    def _known_partitions(self) -> list[TopicPartition]:
        """All that there may be."""
        numbers = range(self._stage.plan.max_partitions)
        return [TopicPartition(topic, n) for topic in self._stage.topics for n in numbers]

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._stage.topics[number // _TOPIC_STEP], number % _TOPIC_STEP)

    async def _is_outdated(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if self._shared is None or now_s - self._looked_s < _LOOK_EVERY_S:
            return False
        return await self._look() != self._shared

    async def _look(self) -> list[int]:
        self._looked_s = asyncio.get_running_loop().time()
        counts = await partition_counts(self._cluster, self._stage.topics)
        if not all(counts):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return [
            place * _TOPIC_STEP + number
            for place, count in enumerate(counts)
            for number in range(count)
        ]
