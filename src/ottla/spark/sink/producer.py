"""Sends encoded batches to the leaders: retries, sequence numbers, one request ahead.

While one chunk is on its way the caller encodes the next. Within a partition batches are sent one
after the other, so that a leader that moves cannot reorder them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import RETRY_PAUSE_MS, response_error
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.spark.errors import SourceError
from ottla.spark.kafka import MOVED, KafkaClient
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.columnar_encode import EncodedBatch, Producer, seal

if TYPE_CHECKING:
    from ottla.spark.options import SinkOptions
    from ottla.spark.sink.transactions import Transaction

# Batches of format 2 come from 3 on; from 12 on Kafka 4 expects transaction.version=2.
_PRODUCE_VERSIONS = (3, 11)
_MAX_SEQUENCE = 1 << 31
_PASSING = MOVED | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# Brokers that give no producer id to this user, or to anybody.
_NO_PRODUCER_ID = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})

Sealed = dict[TopicPartition, memoryview]


class BatchProducer:
    """One per task."""

    def __init__(
        self, client: KafkaClient, options: SinkOptions, transaction: Transaction | None
    ) -> None:
        self._client = client
        self._options = options
        self._transaction = transaction
        self._producer = Producer()
        self._sequences: dict[TopicPartition, int] = {}
        self._under_way: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._transaction is not None:
            identity = self._transaction.identity
            self._producer = Producer(identity.producer_id, identity.epoch, True)
        elif self._options.acks == -1:
            self._producer = self._client.run(self._init_producer_id())

    def submit(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Waits until what was submitted before is stored, then sends this."""
        rounds: list[Sealed] = []
        depth: dict[TopicPartition, int] = {}
        for batch in batches:
            partition = TopicPartition(topic, batch.partition)
            index = depth.get(partition, 0)
            depth[partition] = index + 1
            if index == len(rounds):
                rounds.append({})
            rounds[index][partition] = memoryview(self._seal(partition, batch))
        self.flush()
        self._under_way = self._client.loop.create_task(self._send_all(rounds))
        # The request goes out now; its answer is looked for later.
        self._client.loop.call_soon(self._client.loop.stop)
        self._client.loop.run_forever()

    def flush(self) -> None:
        """Waits until everything is stored."""
        task, self._under_way = self._under_way, None
        if task is not None:
            self._client.run(_result_of(task))

    def give_up(self) -> None:
        """After a failure. What is under way ends first: a batch that arrived after the end of its
        transaction would begin another one, which nobody ends."""
        try:
            self.flush()
        except OttlaError:
            pass  # the failure that led here is what counts

    def _seal(self, partition: TopicPartition, batch: EncodedBatch) -> bytes:
        sequence = -1
        if self._producer.producer_id >= 0:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + batch.records) % _MAX_SEQUENCE
        return seal(
            batch,
            compression=self._options.compression,
            producer=self._producer,
            sequence=sequence,
        )

    async def _send_all(self, rounds: list[Sealed]) -> None:
        for pending in rounds:
            if self._transaction is not None:
                await self._transaction.add(pending)
            await self._send(pending)

    async def _send(self, pending: Sealed) -> None:
        """One batch per partition; tries again what may pass, until the time is over."""
        loop = self._client.loop
        timeout_ms = self._client.connect.timeout_ms
        deadline = loop.time() + timeout_ms / 1000
        refresh = False
        while pending:
            left_ms = max((deadline - loop.time()) * 1000, 1)
            by_leader = await self._client.by_leader(pending, refresh=refresh, timeout_ms=left_ms)
            # A leader that says nothing must leave time for its successor.
            request_ms = min(left_ms, self._client.cluster.request_timeout_ms)
            answers = await asyncio.gather(
                *(
                    self._send_to(leader, {p: pending[p] for p in group}, request_ms)
                    for leader, group in by_leader.items()
                )
            )
            failed = {p: error for answer in answers for p, error in answer.items()}
            for partition, error in failed.items():
                if error.code in _FENCED:
                    raise SourceError(
                        f"another attempt of this task took over its transaction ({partition})"
                    )
                if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    raise SourceError(
                        f"{partition} does not take batches of {len(pending[partition])} bytes: "
                        "kafka.batch.size makes smaller ones, the topic's max.message.bytes "
                        "allows larger ones"
                    )
                if error.code not in _PASSING or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                    raise KafkaError(error.code, f"{partition}: {error}")
            pending = {p: batch for p, batch in pending.items() if p in failed}
            if pending:
                refresh = True
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    async def _send_to(
        self, leader: int, batches: Sealed, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        cls = m.ProduceRequest
        topics: dict[str, list[Any]] = {}
        for partition, batch in batches.items():
            topics.setdefault(partition.topic, []).append(
                cls.PartitionProduceData(index=partition.partition, records=batch)
            )
        request = cls(
            transactional_id=None if self._transaction is None else self._transaction.id,
            acks=self._options.acks,
            timeout_ms=int(timeout_ms),
            topic_data=[
                cls.TopicProduceData(name=name, partition_data=data)
                for name, data in topics.items()
            ],
        )
        low, high = _PRODUCE_VERSIONS
        try:
            channel = await self._client.cluster.channel_to(leader, timeout_ms=timeout_ms)
            answer = await channel.send(
                request, timeout_ms=timeout_ms, min_version=low, max_version=high
            )
        except OSError as error:
            text = f"broker {leader} cannot be reached: {error}"
            return dict.fromkeys(batches, KafkaError(ErrorCode.NETWORK_EXCEPTION, text))
        return {
            TopicPartition(topic.name, result.index): response_error(
                result.error_code, result.error_message or None
            )
            for topic in answer.responses
            for result in topic.partition_responses
            # A sequence number that is there already: the answer to the first attempt was lost.
            if result.error_code not in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        }

    async def _init_producer_id(self) -> Producer:
        loop = self._client.loop
        timeout_ms = self._client.connect.timeout_ms
        deadline = loop.time() + timeout_ms / 1000
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        while True:
            answer = await self._client.cluster.send_to_any(request, timeout_ms=timeout_ms)
            if not answer.error_code:
                return Producer(answer.producer_id, answer.producer_epoch)
            error = response_error(answer.error_code)
            if error.code in _NO_PRODUCER_ID:
                return Producer()
            # Right after a start no coordinator can hand out ids yet.
            passing = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if not passing or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                raise error
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)


async def _result_of(task: asyncio.Task[None]) -> None:
    await task
