"""A small producer for one topic: gathers records into batches by partition.

One batch per partition is under way at a time, so the order of records is that of the calls, even
where a leader moves. With acks=all nothing is stored twice (`sender.py`). Works on Ottla and Apache
Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster import DEFAULT_TIMEOUT_MS, response_error
from ottla.client.partitioner import StickyChoice, partition_of_key
from ottla.client.sender import ACKS_ALL, BatchSender, NotStored
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    import random

    from ottla.client.cluster import Cluster

DEFAULT_BATCH_BYTES = 256 * 1024
# What a record costs beside its key and value, at most, and without headers.
_RECORD_OVERHEAD_BYTES = 24
_BUFFER_BATCHES = 32


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
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._timeout_ms = timeout_ms
        self._sender = BatchSender(cluster, acks=acks, timeout_ms=timeout_ms)
        self._sticky = StickyChoice(rng)
        self._partition_count = 0
        self._available: list[int] = []
        self._waiting: dict[int, list[Record]] = {}
        self._sizes: dict[int, int] = {}
        self._total_bytes = 0
        self.acknowledged = 0

    @property
    def buffered(self) -> int:
        """How many records wait for the next flush."""
        return sum(map(len, self._waiting.values()))

    @property
    def base_offsets(self) -> dict[TopicPartition, int]:
        """Where the last batch of each partition was stored."""
        return self._sender.base_offsets

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
        await self._sender.start()

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
        counts = {
            TopicPartition(self._topic, partition): len(waiting)
            for partition, waiting in self._waiting.items()
        }
        pending = {
            TopicPartition(self._topic, partition): memoryview(self._batch(partition, waiting))
            for partition, waiting in self._waiting.items()
        }
        self._waiting, self._sizes, self._total_bytes = {}, {}, 0
        try:
            await self._sender.send(pending)
        except NotStored as error:
            raise KafkaError(error.code, f"{self._topic}: {error}") from error
        finally:
            self.acknowledged += sum(counts[stored] for stored in counts.keys() - pending.keys())
        self._sticky.move_on(self._available)

    def _batch(self, partition: int, waiting: list[Record]) -> bytes:
        sequence = self._sender.take_sequence(TopicPartition(self._topic, partition), len(waiting))
        producer_id, producer_epoch = self._sender.identity
        return build_batch(
            waiting,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )


def _size_of(record: Record) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += 10 + len(name) * 4 + len(value or b"")
    return size
