"""Batches that were refused for now: what their producers sent behind them is refused as well.

A producer with idempotence has up to five batches of a partition under way. Where the first is
refused (this broker does not lead yet, the in-sync replicas are too few) and the reason is gone
when the second is served, Apache Kafka takes the second for the first one of a producer that it
does not know, or calls it out of order. librdkafka then takes the answer for one to both, and the
refused records are lost; or it begins a new epoch, and whatever has no answer on any partition is
written again. So the ones behind get the answer of the first until that one is back: both are sent
again, in order.

Where another broker led before, it may have refused the first one, and librdkafka sends the second
to the new leader while the first is on its way back into the queue. That leader knows of no refusal
but sees the gap, and waits for a while for what belongs there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode
from ottla.storage.producers.state import (
    KEPT_BATCHES,
    MAX_SEQUENCE,
    Producer,
    ProducerState,
    add_to_sequence,
)
from ottla.types import TopicPartition
from ottla.wire.records import HEADER, HEADER_BYTES, MAGIC, MAGIC_AT

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition

# Nothing was appended, and the client will send the batch again.
_FOR_NOW = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Whoever gave up its first batch begins a new epoch, so that this only bounds what is remembered.
KEPT_MS = 10_000
MOST_KEPT = 1_000
# What belongs in a gap is back with the next attempts of its client, which are a second apart at
# most (retry.backoff.max.ms); after this a gap is what it is for Kafka.
GAP_MS = 5_000
# Partitions that a further refusal looks at for what is too old.
LOOKED_AT = 2


class _Batch(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int


class _Refusal(NamedTuple):
    batch: _Batch
    error: ErrorCode
    at_ms: float


def _read(data: memoryview) -> _Batch | None:
    """None for a batch without sequence numbers."""
    if len(data) < HEADER_BYTES or data[MAGIC_AT] != MAGIC:
        return None
    *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(data)
    if producer_id < 0 or sequence < 0:
        return None
    return _Batch(producer_id, epoch, sequence)


def _is_behind(sequence: int, other: int) -> bool:
    """Sequences wrap, so the shorter way round decides."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE // 2


class _Gap(NamedTuple):
    """What is waited for, and since when."""

    first: _Batch
    since_ms: float


class Refusals:
    """The first batch that each producer has to send to a partition again, as far as is known."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        # By partition and producer id; the partition that refused last is the last one.
        self._kept: dict[TopicPartition, dict[int, _Refusal]] = {}
        self._gaps: dict[tuple[TopicPartition, int], _Gap] = {}

    def __len__(self) -> int:
        return sum(len(refused) for refused in self._kept.values()) + len(self._gaps)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether somebody may be waited for here."""
        return tp in self._kept

    def note(self, tp: TopicPartition, data: memoryview, error: ErrorCode) -> None:
        """This batch was refused by its partition."""
        batch = _read(data) if error in _FOR_NOW else None
        if batch is None:
            return
        for other in list(islice(self._kept, LOOKED_AT)):
            self._forget_old(other)
        refused = self._kept.pop(tp, {})
        self._kept[tp] = refused
        first = refused.get(batch.producer_id)
        if first is None or not _follows(batch, first.batch):
            refused[batch.producer_id] = _Refusal(batch, error, self._monotonic_ms())
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        if len(refused) > MOST_KEPT:
            del refused[next(iter(refused))]

    def of_an_earlier_batch(self, partition: Partition, data: memoryview) -> ErrorCode | None:
        """The answer to a batch that must not be appended before the one that was refused, here or
        by the leader before."""
        log, tp = partition.log, partition.tp
        if tp in self._kept:
            self._forget_old(tp)
        batch = _read(data)
        if log is None or batch is None:
            return None
        earlier = self._of_a_kept_one(tp, batch, log.producers)
        if earlier is None and self._may_be_filled(partition, batch, log.producers):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return earlier

    def _may_be_filled(self, partition: Partition, batch: _Batch, producers: ProducerState) -> bool:
        """Whether there is a gap before the batch that somebody else's refusal may have left."""
        if partition.leader_epoch == 0:
            return False  # nobody led before
        producer = producers.get(batch.producer_id)
        if _is_heard(producer, partition) or not _is_after_a_gap(batch, producer):
            return False
        first = batch._replace(sequence=_next_sequence(batch, producer))
        key = partition.tp, batch.producer_id
        gap = self._gaps.get(key)
        now_ms = self._monotonic_ms()
        if gap is None or gap.first != first:
            self._gaps.pop(key, None)
            self._gaps[key] = gap = _Gap(first, now_ms)
            if len(self._gaps) > MOST_KEPT:
                del self._gaps[next(iter(self._gaps))]
        return now_ms - gap.since_ms < GAP_MS

    def _of_a_kept_one(
        self, tp: TopicPartition, batch: _Batch, producers: ProducerState
    ) -> ErrorCode | None:
        refused = self._kept.get(tp, {})
        first = refused.get(batch.producer_id)
        if first is None:
            return None
        if _follows(batch, first.batch) and not _is_in_order(batch, producers):
            return first.error
        # It is back, or another leader has taken it meanwhile.
        del refused[batch.producer_id]
        self._forget_old(tp)
        return None

    def _forget_old(self, tp: TopicPartition) -> None:
        refused = self._kept.get(tp, {})
        oldest_ms = self._monotonic_ms() - KEPT_MS
        for producer_id in [p for p, refusal in refused.items() if refusal.at_ms <= oldest_ms]:
            del refused[producer_id]
        if not refused:
            self._kept.pop(tp, None)


def _follows(batch: _Batch, first: _Batch) -> bool:
    return batch.epoch == first.epoch and _is_behind(batch.sequence, first.sequence)


def _is_in_order(batch: _Batch, producers: ProducerState) -> bool:
    """The next one of the epoch, or one that is in the log."""
    producer = producers.get(batch.producer_id)
    if producer is None or producer.epoch != batch.epoch or not producer.batches:
        return False
    return not _is_after_a_gap(batch, producer)


def _is_after_a_gap(batch: _Batch, producer: Producer | None) -> bool:
    """Records of its epoch are missing before it; older epochs have nothing to wait for."""
    if producer is None or batch.epoch > producer.epoch:
        return batch.sequence != 0
    return batch.epoch == producer.epoch and _is_behind(
        batch.sequence, _next_sequence(batch, producer)
    )


def _next_sequence(batch: _Batch, producer: Producer | None) -> int:
    """Of the batch's epoch, which may be a new one."""
    if producer is None or batch.epoch != producer.epoch:
        return 0
    return add_to_sequence(producer.last_sequence, 1)


def _is_heard(producer: Producer | None, partition: Partition) -> bool:
    """As many batches as a producer can have under way have come since this broker began to lead:
    what another one refused is among them."""
    return (
        producer is not None
        and len(producer.batches) == KEPT_BATCHES
        and producer.batches[0].base_offset >= partition.epoch_start_offset
    )
