"""A small producer for one topic: batches by partition, retries, no duplicates with acks=all.

One batch per partition is under way at a time, so the order of records is that of the calls, also
where a leader moves. With acks=all every batch carries a producer id and a sequence number
(KIP-98): a batch that is sent again because its answer was lost is stored once. Works on Ottla and
Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import DEFAULT_TIMEOUT_MS, RETRY_PAUSE_MS, response_error
from ottla.client.partitioner import StickyChoice, partition_of_key
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    import random

    from ottla.client.cluster import Cluster

ACKS_ALL = -1
DEFAULT_BATCH_BYTES = 256 * 1024
# What a record costs beside its key and value, at most, and without headers.
_RECORD_OVERHEAD_BYTES = 24
_BUFFER_BATCHES = 32
# Batches of format 2 come from 3 on; from 13 on topics are named by id.
_PRODUCE_VERSIONS = (3, 12)
_MAX_SEQUENCE = 1 << 31
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.CORRUPT_MESSAGE,
    }
)
# Brokers that give no producer id to this user, or to anybody.
_NO_PRODUCER_ID = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})


class TopicProducer:
    """`send` buffers, `flush` waits until everything is stored; both raise KafkaError."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        rng: random.Random,
        acks: int = ACKS_ALL,
        compression: int = 0,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._timeout_ms = timeout_ms
        self._sticky = StickyChoice(rng)
        self._partition_count = 0
        self._available: list[int] = []
        self._waiting: dict[int, list[Record]] = {}
        self._sizes: dict[int, int] = {}
        self._total_bytes = 0
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}
        self.acknowledged = 0

    @property
    def buffered(self) -> int:
        """How many records wait for the next flush."""
        return sum(map(len, self._waiting.values()))

    async def start(self) -> None:
        """Learns the topic's partitions and gets a producer id."""
        answer = await self._cluster.metadata([self._topic], timeout_ms=self._timeout_ms)
        for topic in answer.topics:
            if topic.error_code:
                error = response_error(topic.error_code)
                raise KafkaError(error.code, f"{self._topic}: {error}")
            self._partition_count = len(topic.partitions)
            led = [p.partition_index for p in topic.partitions if p.leader_id >= 0]
            self._available = sorted(led) or list(range(self._partition_count))
        if self._acks == ACKS_ALL:
            self._producer = await self._init_producer_id()

    async def send(self, record: Record, partition: int | None = None) -> None:
        """Sends what has gathered where enough has; the partition follows from the key, else."""
        if partition is None:
            partition = self._choose(record.key)
        else:
            self.check_partition(partition)
        size = _size_of(record)
        if self._sizes.get(partition, 0) + size > self._batch_bytes and self._waiting.get(
            partition
        ):
            await self.flush()
        self._waiting.setdefault(partition, []).append(record)
        self._sizes[partition] = self._sizes.get(partition, 0) + size
        self._total_bytes += size
        if self._total_bytes > _BUFFER_BATCHES * self._batch_bytes:
            await self.flush()

    def check_partition(self, partition: int) -> None:
        """Raises KafkaError for one that the topic does not have."""
        if not 0 <= partition < self._partition_count:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self._topic} has {self._partition_count} partitions, there is no {partition}",
            )

    def _choose(self, key: bytes | None) -> int:
        if key is None:
            return self._sticky.current(self._available)
        return partition_of_key(key, self._partition_count)

    async def flush(self) -> None:
        """Stores all that is buffered; tries again what may pass, until the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        counts = {partition: len(waiting) for partition, waiting in self._waiting.items()}
        pending = {p: self._batch(p, waiting) for p, waiting in self._waiting.items()}
        self._waiting, self._sizes, self._total_bytes = {}, {}, 0
        refresh = False
        while pending:
            failed = await self._send_round(pending, refresh, deadline - loop.time())
            for partition in [partition for partition in pending if partition not in failed]:
                del pending[partition]
                self.acknowledged += counts[partition]
            for error in failed.values():
                if error.code not in _PASSING or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                    raise KafkaError(error.code, f"{self._topic}: {error}")
            if pending:
                refresh = True
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        self._sticky.move_on(self._available)

    def _batch(self, partition: int, waiting: list[Record]) -> bytes:
        producer_id, producer_epoch = self._producer
        sequence = -1
        if producer_id >= 0:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + len(waiting)) % _MAX_SEQUENCE
        return build_batch(
            waiting,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )

    async def _send_round(
        self, pending: dict[int, bytes], refresh: bool, left_s: float
    ) -> dict[int, KafkaError]:
        """One request to each leader; what failed, by partition."""
        left_ms = max(left_s * 1000, 1)
        by_leader: dict[int, list[int]] = {}
        for partition in pending:
            leader = await self._cluster.leader_of(
                TopicPartition(self._topic, partition), refresh=refresh, timeout_ms=left_ms
            )
            by_leader.setdefault(leader, []).append(partition)
        # A leader that says nothing must leave time for its successor.
        request_ms = min(left_ms, self._cluster.request_timeout_ms)
        results = await asyncio.gather(
            *(
                self._send_to(leader, {p: pending[p] for p in partitions}, request_ms)
                for leader, partitions in by_leader.items()
            )
        )
        return {partition: error for result in results for partition, error in result.items()}

    async def _send_to(
        self, leader: int, batches: dict[int, bytes], timeout_ms: float
    ) -> dict[int, KafkaError]:
        request_class = m.ProduceRequest
        request = request_class(
            acks=self._acks,
            timeout_ms=int(timeout_ms),
            topic_data=[
                request_class.TopicProduceData(
                    name=self._topic,
                    partition_data=[
                        request_class.PartitionProduceData(index=index, records=memoryview(batch))
                        for index, batch in batches.items()
                    ],
                )
            ],
        )
        low, high = _PRODUCE_VERSIONS
        try:
            channel = await self._cluster.channel_to(leader, timeout_ms=timeout_ms)
            if self._acks == 0:
                channel.send_without_answer(request, min_version=low, max_version=high)
                return {}
            answer = await channel.send(
                request, timeout_ms=timeout_ms, min_version=low, max_version=high
            )
        except OSError as error:
            text = f"broker {leader} cannot be reached: {error}"
            return dict.fromkeys(batches, KafkaError(ErrorCode.NETWORK_EXCEPTION, text))
        return dict(_failures(answer.responses))

    async def _init_producer_id(self) -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        while True:
            try:
                answer = await self._cluster.send_to_any(request, timeout_ms=self._timeout_ms)
                if not answer.error_code:
                    return answer.producer_id, answer.producer_epoch
                error = response_error(answer.error_code)
            except KafkaError as failure:
                error = failure
            if error.code in _NO_PRODUCER_ID:
                return -1, -1
            # Right after a start no coordinator can hand out ids yet.
            passing = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if not passing or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                raise error
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)


def _failures(responses: Iterable[Any]) -> Iterable[tuple[int, KafkaError]]:
    for topic in responses:
        for partition in topic.partition_responses:
            # A sequence number that is there already: the answer to the first attempt was lost.
            if partition.error_code not in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                yield (
                    partition.index,
                    response_error(partition.error_code, partition.error_message or None),
                )


def _size_of(record: Record) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += 10 + len(name) * 4 + len(value or b"")
    return size
