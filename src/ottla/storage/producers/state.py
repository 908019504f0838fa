"""Producers of one partition: sequences, duplicates, open transactions, snapshots
(ProducerStateManager).

A transaction is open from its first record to its marker, and stays unstable until the marker is
replicated: readers of committed records must not pass the first such offset.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import ItemsView
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire.checksum import crc32c

NO_PRODUCER = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 0x7FFFFFFF
KEPT_BATCHES = 5
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class SnapshotDamaged(Exception):
    """A `.snapshot` file with another version, a wrong CRC or a wrong length."""


class ProducerBatch(NamedTuple):
    """What is remembered of one appended batch."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class EndMarker(NamedTuple):
    """A commit or abort marker in the log, of the producer that is named beside it."""

    offset: int
    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "looked_at_offset",
        "seen_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # When an expiry last found new batches, and up to which.
        self.seen_ms = -1
        self.looked_at_offset = -1
        self.batches: deque[ProducerBatch] = deque(maxlen=KEPT_BATCHES)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1


def add_to_sequence(sequence: int, count: int) -> int:
    """Sequences wrap from 2147483647 to 0."""
    return (sequence + count) & MAX_SEQUENCE


class ProducerState:
    """Everything known of the producers that wrote to one partition, up to `map_end_offset`."""

    __slots__ = (
        "_open",
        "_producers",
        "_unreplicated",
        "first_unstable_offset",
        "last_snapshot_offset",
        "map_end_offset",
    )

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        # First offset -> producer of the open transactions; in the log's order, oldest first.
        self._open: dict[int, int] = {}
        # First offset -> marker's offset of ended ones whose marker is not replicated yet.
        self._unreplicated: dict[int, int] = {}
        # The lowest key of both; None where nothing holds back readers of committed records.
        self.first_unstable_offset: int | None = None
        self.map_end_offset = 0
        self.last_snapshot_offset = 0

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def items(self) -> ItemsView[int, Producer]:
        return self._producers.items()

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        *,
        transactional: bool = False,
    ) -> ProducerBatch | None:
        """What the leader does with a batch: None = append, a batch = it is that duplicate.

        Raises KafkaError: 45 for a gap or an old sequence, 47 for an old epoch, 48 for records
        outside of the transaction that the producer has open here.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        if epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of producer {producer_id} is older than {producer.epoch}.",
            )
        if epoch == producer.epoch:
            for batch in producer.batches:
                if (batch.first_sequence, batch.last_sequence) == (first_sequence, last_sequence):
                    return batch
        same_epoch = epoch == producer.epoch and bool(producer.batches)
        expected = add_to_sequence(producer.last_sequence, 1) if same_epoch else 0
        # After records without an epoch any sequence is taken (ProducerAppendInfo.checkSequence).
        if first_sequence != expected and producer.epoch != NO_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {first_sequence}, expected {expected}.",
            )
        if producer.transaction_first_offset >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {producer_id} has a transaction open since offset "
                f"{producer.transaction_first_offset} and sent records outside of it.",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """What a coordinator's own write is checked for (its sequences are not)."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """An old coordinator, which does not know that it was replaced, is fenced off (52)."""
        self.check_epoch(producer_id, epoch)
        producer = self._producers.get(producer_id)
        if producer is not None and coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {coordinator_epoch} is older than "
                f"{producer.coordinator_epoch} of producer {producer_id}.",
            )

    def record(
        self, producer_id: int, epoch: int, batch: ProducerBatch, *, transactional: bool
    ) -> None:
        """A data batch of this producer was appended (or replayed)."""
        producer = self._enter(producer_id, epoch)
        producer.batches.append(batch)
        producer.last_timestamp = batch.timestamp
        if transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = batch.base_offset
            self._open[batch.base_offset] = producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = batch.base_offset

    def record_marker(
        self, producer_id: int, epoch: int, marker: EndMarker
    ) -> AbortedTransaction | None:
        """A marker was appended (or replayed); what the transaction index gets, if anything.

        A marker without a transaction to end leaves no trace there (ProducerAppendInfo).
        """
        producer = self._enter(producer_id, epoch)
        first_offset, producer.transaction_first_offset = producer.transaction_first_offset, -1
        producer.last_timestamp = marker.timestamp
        producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
        if first_offset < 0:
            return None
        self._open.pop(first_offset, None)
        self._unreplicated[first_offset] = marker.offset
        self._find_first_unstable()
        if not marker.is_abort:
            return None
        stable = next(iter(self._open), marker.offset + 1)
        return AbortedTransaction(producer_id, first_offset, marker.offset, stable)

    def replicated_up_to(self, high_watermark: int) -> None:
        """Transactions whose marker lies below are over for every reader."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        lowest = next(iter(self._open), None)
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            lowest = unreplicated if lowest is None else min(lowest, unreplicated)
        self.first_unstable_offset = lowest

    def _enter(self, producer_id: int, epoch: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(epoch)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def recall(self, producer_id: int, epoch: int, batch: ProducerBatch) -> None:
        """A batch before the oldest known one of its epoch: a snapshot has the last one alone, and
        a client may send any of its last five again."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch or not producer.batches:
            return
        oldest = producer.batches[0]
        if (
            len(producer.batches) < KEPT_BATCHES
            and batch.last_offset < oldest.base_offset
            and add_to_sequence(batch.last_sequence, 1) == oldest.first_sequence
        ):
            producer.batches.appendleft(batch)

    def expire(self, now_ms: int, idle_ms: int) -> None:
        """Forgets producers that have been silent for `idle_ms` and have no open transaction.

        Kafka goes by the records' own time alone: it forgets a producer of old records while it
        writes, and takes what that producer sends again for new. Here whoever wrote since the
        last look is not silent.
        """
        for producer in self._producers.values():
            if producer.last_offset != producer.looked_at_offset:
                producer.looked_at_offset, producer.seen_ms = producer.last_offset, now_ms
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset >= 0
            or now_ms - max(producer.last_timestamp, producer.seen_ms) < idle_ms
        }

    def loaded(self) -> None:
        """All of this was read from disk: when it was written, only the records' time tells."""
        for producer in self._producers.values():
            producer.looked_at_offset = producer.last_offset

    def clear(self, end_offset: int) -> None:
        self._producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.first_unstable_offset = None
        self.map_end_offset = end_offset
        self.last_snapshot_offset = end_offset

    def encode_snapshot(self) -> bytes:
        body = bytearray(struct.pack(">i", len(self._producers)))
        for producer_id, producer in self._producers.items():
            if producer.batches:
                last = producer.batches[-1]
                place = (last.last_sequence, last.last_offset, last.last_offset - last.base_offset)
            else:
                place = (NO_SEQUENCE, -1, 0)
            body += _SNAPSHOT_ENTRY.pack(
                producer_id,
                producer.epoch,
                *place,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body

    def load_snapshot(self, data: bytes, offset: int) -> None:
        """Replaces everything by a snapshot that holds up to `offset` (exclusive)."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise SnapshotDamaged(f"{len(data)} bytes")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
        if version != _SNAPSHOT_VERSION or crc32c(memoryview(data)[6:]) != crc:
            raise SnapshotDamaged(f"version {version} or CRC wrong")
        if len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise SnapshotDamaged(f"{count} entries in {len(data)} bytes")
        producers: dict[int, Producer] = {}
        for entry in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator, first = entry
            producer = producers[producer_id] = Producer(epoch)
            producer.last_timestamp = timestamp
            producer.coordinator_epoch = coordinator
            producer.transaction_first_offset = first
            if sequence != NO_SEQUENCE:
                first_sequence = add_to_sequence(sequence, -delta)
                producer.batches.append(
                    ProducerBatch(
                        first_sequence, sequence, last_offset - delta, last_offset, timestamp
                    )
                )
        self._producers = producers
        self._open = dict(
            sorted(
                (producer.transaction_first_offset, producer_id)
                for producer_id, producer in producers.items()
                if producer.transaction_first_offset >= 0
            )
        )
        self._unreplicated = {}
        self._find_first_unstable()
        self.map_end_offset = offset
        self.last_snapshot_offset = offset
