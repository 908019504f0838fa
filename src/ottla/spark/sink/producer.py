"""Seals encoded batches and sends them, one request ahead.

While one chunk is on its way the caller encodes the next. Within a partition batches are sent one
after the other, so that a leader that moves cannot reorder them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.client.sender import NOBODY, Batches, BatchSender, NotStored
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient
from ottla.types import TopicPartition
from ottla.wire.columnar_encode import EncodedBatch, Producer, seal

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ottla.spark.options import SinkOptions
    from ottla.spark.sink.transactions import Transaction

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


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
        self._under_way: Future[None] | None = None

    def start(self) -> None:
        self._client.run(self._sender.start())

    def submit(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Waits until what was submitted before is stored, then sends this."""
        rounds: list[Batches] = []
        depth: dict[TopicPartition, int] = {}
        for batch in batches:
            partition = TopicPartition(topic, batch.partition)
            index = depth.get(partition, 0)
            depth[partition] = index + 1
            if index == len(rounds):
                rounds.append({})
            rounds[index][partition] = memoryview(self._seal(partition, batch))
        self.flush()
        self._under_way = self._client.begin(self._send_all(rounds))

    def flush(self) -> None:
        """Waits until everything is stored."""
        task, self._under_way = self._under_way, None
        if task is not None:
            self._client.result(task)

    def give_up(self) -> None:
        """After a failure. What is under way ends first: a batch that arrived after the end of its
        transaction would begin another one, which nobody ends."""
        try:
            self.flush()
        except OttlaError:
            pass  # the failure that led here is what counts

    def _seal(self, partition: TopicPartition, batch: EncodedBatch) -> bytes:
        sequence = self._sender.take_sequence(partition, batch.records)
        return seal(
            batch,
            compression=self._compression,
            producer=Producer(*self._sender.identity, self._transaction is not None),
            sequence=sequence,
        )

    async def _send_all(self, rounds: list[Batches]) -> None:
        for pending in rounds:
            if self._transaction is not None:
                await self._transaction.add(pending)
            await self._send(pending)

    async def _send(self, pending: Batches) -> None:
        try:
            await self._sender.send(pending)
        except NotStored as error:
            where = error.partition
            if error.code in _FENCED:
                raise SourceError(
                    f"another attempt of this task took over its transaction ({where})"
                ) from error
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise SourceError(
                    f"{where} does not take batches of {len(pending[where])} bytes: "
                    "kafka.batch.size makes smaller ones, the topic's max.message.bytes "
                    "allows larger ones"
                ) from error
            raise KafkaError(error.code, f"{where}: {error}") from error
