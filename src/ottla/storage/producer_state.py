"""Idempotent producers of one partition: sequences, duplicates, snapshots (ProducerStateManager).

Transactions are only followed as far as the snapshot file needs them (open transaction, coordinator
epoch); the last stable offset comes with the transaction coordinator.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.checksum import crc32c

NO_PRODUCER = -1
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


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[ProducerBatch] = deque(maxlen=KEPT_BATCHES)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


def add_to_sequence(sequence: int, count: int) -> int:
    """Sequences wrap from 2147483647 to 0."""
    return (sequence + count) & MAX_SEQUENCE


class ProducerState:
    """Everything known of the producers that wrote to one partition, up to `map_end_offset`."""

    __slots__ = ("_producers", "last_snapshot_offset", "map_end_offset")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self.map_end_offset = 0
        self.last_snapshot_offset = 0

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
    ) -> ProducerBatch | None:
        """What the leader does with a batch: None = append, a batch = it is that duplicate.

        Raises the errors of FACTS: 45 for a gap or an old sequence, 47 for an old epoch.
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
        if first_sequence != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {first_sequence}, expected {expected}.",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """What a coordinator's own write is checked for (its sequences are not)."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def record(
        self, producer_id: int, epoch: int, batch: ProducerBatch, *, transactional: bool
    ) -> None:
        """A data batch of this producer was appended (or replayed)."""
        producer = self._enter(producer_id, epoch)
        producer.batches.append(batch)
        producer.last_timestamp = batch.timestamp
        if transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = batch.base_offset

    def record_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int
    ) -> None:
        """A commit or abort marker was appended (or replayed)."""
        producer = self._enter(producer_id, epoch)
        producer.transaction_first_offset = -1
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = max(producer.coordinator_epoch, coordinator_epoch)

    def _enter(self, producer_id: int, epoch: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(epoch)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def expire(self, now_ms: int, idle_ms: int) -> None:
        """Forgets producers that were silent for `idle_ms` and have no open transaction."""
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset >= 0 or now_ms - producer.last_timestamp < idle_ms
        }

    def clear(self, end_offset: int) -> None:
        self._producers.clear()
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
        self.map_end_offset = offset
        self.last_snapshot_offset = offset
