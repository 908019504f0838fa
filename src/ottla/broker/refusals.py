"""Batches that were refused for now: what their producers sent behind them is refused as well.

A producer with idempotence has up to five batches of a partition under way. Where the first is
refused (this broker does not lead yet, the in-sync replicas are too few) and the reason is gone
when the second is served, Apache Kafka takes the second for the first one of a producer that it
does not know, or calls it out of order. librdkafka then takes the answer for one to both, and the
refused records are lost; or it begins a new epoch, and whatever has no answer on any partition is
written again. So the ones behind get the answer of the first until that one is back: both are sent
again, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.storage.producer_state import MAX_SEQUENCE, ProducerState, add_to_sequence
from ottla.types import TopicPartition
from ottla.wire.records import HEADER, HEADER_BYTES

# Nothing was appended, and the client will send the batch again.
_FOR_NOW = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Who gave its first batch up begins a new epoch, so that this only bounds what is remembered.
KEPT_MS = 10_000
MOST_KEPT = 1_000
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
    if len(data) < HEADER_BYTES:
        return None
    *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(data)
    if producer_id < 0 or sequence < 0:
        return None
    return _Batch(producer_id, epoch, sequence)


def _is_behind(sequence: int, other: int) -> bool:
    """Sequences wrap, so the shorter way round decides."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE // 2


class Refusals:
    """The first batch that each producer has to send to a partition again."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        # By partition and producer id; the partition that refused last is the last one.
        self._kept: dict[TopicPartition, dict[int, _Refusal]] = {}

    def __len__(self) -> int:
        return sum(len(refused) for refused in self._kept.values())

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

    def of_an_earlier_batch(
        self, tp: TopicPartition, data: memoryview, producers: ProducerState
    ) -> ErrorCode | None:
        """The answer to a batch that must not be appended before the one that was refused."""
        self._forget_old(tp)
        refused = self._kept.get(tp)
        batch = _read(data)
        first = refused.get(batch.producer_id) if refused and batch else None
        if refused is None or batch is None or first is None:
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
    return not _is_behind(batch.sequence, add_to_sequence(producer.last_sequence, 1))
