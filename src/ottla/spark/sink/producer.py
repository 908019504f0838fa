"""Seals encoded batches and sends them, while the caller encodes the next.

Up to five batches of a partition are under way (`client/batch_pipeline.py`); what is not stored yet
is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.client.batch_pipeline import BatchPipeline
from ottla.client.sender import NOBODY, BatchSender, NotStored
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient
from ottla.types import TopicPartition
from ottla.wire.columnar_encode import EncodedBatch, Producer, seal

if TYPE_CHECKING:
    from ottla.spark.loop_thread import Work
    from ottla.spark.options import SinkOptions
    from ottla.spark.sink.transactions import Transaction

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
Sealed = list[tuple[TopicPartition, memoryview]]


class BatchProducer:
    """One per task."""

    def __init__(
        self, client: KafkaClient, options: SinkOptions, transaction: Transaction | None
    ) -> None:
        self._client = client
        self._compression = options.compression
        self._transaction = transaction
        self._sender = BatchSender(
            client.cluster,
            acks=options.acks,
            timeout_ms=client.connect.timeout_ms,
            transactional_id=None if transaction is None else transaction.id,
            identity=NOBODY if transaction is None else transaction.identity,
        )
        self._pipeline = BatchPipeline(client.cluster, self._sender)
        self._under_way: Work[None] | None = None

    def start(self) -> None:
        self._client.run(self._sender.start())

    def submit(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Sends them when there is room for them."""
        sealed: Sealed = []
        for batch in batches:
            partition = TopicPartition(topic, batch.partition)
            sealed.append((partition, memoryview(self._seal(partition, batch))))
        self._wait()
        self._under_way = self._client.begin(self._put(sealed))

    def flush(self) -> None:
        """Waits until everything is stored."""
        self._wait()
        self._client.run(self._drain())

    def give_up(self) -> None:
        """After a failure. What is under way ends first: a batch that arrived after the end of its
        transaction would begin another one, which nobody ends."""
        try:
            self._client.run(self._pipeline.give_up())
            self._wait()  # it may be joining the transaction
        except OttlaError:
            pass  # the failure that led here is what counts

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._client.result(under_way)

    def _seal(self, partition: TopicPartition, batch: EncodedBatch) -> bytes:
        sequence = self._sender.take_sequence(partition, batch.records)
        return seal(
            batch,
            compression=self._compression,
            producer=Producer(*self._sender.identity, self._transaction is not None),
            sequence=sequence,
        )

    async def _put(self, sealed: Sealed) -> None:
        if self._transaction is not None:
            await self._transaction.add(partition for partition, _ in sealed)
        try:
            await self._pipeline.put(sealed)
        except NotStored as error:
            raise _explained(error) from error

    async def _drain(self) -> None:
        try:
            await self._pipeline.drain()
        except NotStored as error:
            raise _explained(error) from error


def _explained(error: NotStored) -> OttlaError:
    where = error.partition
    if error.code in _FENCED:
        return SourceError(f"another attempt of this task took over its transaction ({where})")
    if error.code is ErrorCode.MESSAGE_TOO_LARGE:
        return SourceError(
            f"{where} does not take batches of {error.batch_bytes} bytes: kafka.batch.size makes "
            "smaller ones, the topic's max.message.bytes allows larger ones"
        )
    return KafkaError(error.code, f"{where}: {error}")
