"""The leader's short way for batches that clients send most of the time.

Batches of several requests that arrived together are checked, header and records, and get their
offsets, to go to the file with one write. The first one that is anything else ends it:
nothing of that one is changed, and `prepare_leader_append` decides about it. So it does for topics
that ask for more than this, for a batch that starts a new segment, and for every error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ottla.errors import KafkaError
from ottla.storage.append.inner import holds_quickly
from ottla.storage.append.rolling import room_before_roll
from ottla.storage.producers.state import (
    NO_PRODUCER,
    ProducerBatch,
    ProducerState,
    add_to_sequence,
)
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.sparse_indexes import BatchPlace
from ottla.topics.configs import LogConfig
from ottla.wire import native
from ottla.wire.checksum import crc32c
from ottla.wire.records import CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC

# Without a bit above the codec: no transaction, no marker, no append time; the last codec is zstd.
_LARGEST_ATTRIBUTES = 4
_LONG_MAX = 0x7FFFFFFFFFFFFFFF
# Looked at by one append: some milliseconds of pure Python (native code looks at more). What is
# above is for the general lane, which can wait.
_MOST_RECORDS = 5000
# Base offset, length and leader epoch: what precedes the magic byte.
_PLACE_IN_LOG = struct.Struct(">qii")


# The batches to be written behind one another, their places, their base offsets, where the log ends
# then, and who is to hear of it after. A bare tuple: one is made for every request.
PlainAppend = tuple[
    Sequence[memoryview], list[BatchPlace], list[int], int, "IdempotentBatches | None"
]


def is_plain(settings: LogConfig) -> bool:
    """No rule of the topic looks at the records or changes the batch."""
    return (
        settings.compression_type == "producer"
        and settings.message_timestamp_type == "CreateTime"
        and settings.message_timestamp_difference_max_ms == _LONG_MAX
        and not settings.compact
        and not settings.ottla_key_guard
    )


def prepare_plain_append(
    settings: LogConfig,
    producers: ProducerState,
    active: Segment,
    batches: Sequence[memoryview],
    end_offset: int,
    leader_epoch: int,
) -> PlainAppend | None:
    """The first batches, as many as are plain, for a log that ends at `end_offset` and whose topic
    is plain: offsets and epoch go into the batches themselves. None where the first batch is not,
    or where it may start a segment."""
    segment_room = room_before_roll(active, settings)
    if segment_room is None:
        return None
    bytes_left, highest_offset, latest_ms = segment_room
    base_offsets: list[int] = []
    places: list[BatchPlace] = []
    idempotent: IdempotentBatches | None = None
    offset = end_offset
    position = 0
    room = min(settings.max_message_bytes, settings.segment_bytes)
    records_left = most_records = native.paced(_MOST_RECORDS)
    code = native.code
    for view in batches:
        size = len(view)
        if not HEADER_BYTES <= size <= room or view.readonly:
            break
        # Header and records in one go, which most batches pass.
        usual = code and code.usual_batch(view, settings.validates_records, most_records)
        crc, count, timestamp, producer = usual or _header_of(view)
        if (
            position + size > bytes_left
            or offset + count - 1 > highest_offset
            or timestamp > latest_ms
        ):
            break
        if not count or crc32c(view[CRC_START:]) != crc:
            break
        if settings.validates_records:
            records_left -= count
            if (base_offsets and records_left < 0) or not (
                usual or holds_quickly(view, HEADER.unpack_from(view), most_records)
            ):
                break
        if producer != NO_PRODUCER:
            idempotent = idempotent or IdempotentBatches(producers)
            if not idempotent.continue_with(HEADER.unpack_from(view), offset):
                break
        base_offsets.append(offset)
        offset += count
        places.append((position, offset - 1, timestamp))
        position += size
    if not base_offsets:
        return None
    used = batches[: len(base_offsets)]
    for view, base in zip(used, base_offsets, strict=True):
        _PLACE_IN_LOG.pack_into(view, 0, base, len(view) - LOG_OVERHEAD_BYTES, leader_epoch)
    return used, places, base_offsets, offset, idempotent


def _header_of(view: memoryview) -> tuple[int, int, int, int]:
    """Checksum, records, latest time and producer of a batch whose header is plain; else it has no
    records."""
    fields = HEADER.unpack_from(view)
    base, length, _, magic, crc, attributes, delta, _, timestamp, producer, _, _, count = fields
    if (
        base != 0
        or length != len(view) - LOG_OVERHEAD_BYTES
        or magic != MAGIC
        or not 0 <= attributes <= _LARGEST_ATTRIBUTES
        or count <= 0
        or count != delta + 1
        # Without a time of its own it counts by the wall clock.
        or timestamp < 0
    ):
        return 0, 0, 0, NO_PRODUCER
    return crc, count, timestamp, producer


class IdempotentBatches:
    """The idempotent producers of one append; their state hears of it after the write."""

    __slots__ = ("_appended", "_next", "_producers")

    def __init__(self, producers: ProducerState) -> None:
        self._producers = producers
        self._appended: list[tuple[int, int, ProducerBatch]] = []
        # What the batches so far let their producers send next: epoch and sequence.
        self._next: dict[int, tuple[int, int]] = {}

    def continue_with(self, fields: tuple[int, ...], base_offset: int) -> bool:
        """False for a duplicate, a gap, and everything else that is not simply the next."""
        *_, delta, _, timestamp, producer_id, epoch, sequence, _ = fields
        if producer_id < 0 or sequence < 0:
            return False
        last_sequence = add_to_sequence(sequence, delta)
        expected = self._next.get(producer_id)
        if expected is not None:
            if expected != (epoch, sequence):
                return False
        elif not self._is_new(producer_id, epoch, sequence, last_sequence):
            return False
        self._next[producer_id] = epoch, add_to_sequence(last_sequence, 1)
        batch = ProducerBatch(sequence, last_sequence, base_offset, base_offset + delta, timestamp)
        self._appended.append((producer_id, epoch, batch))
        return True

    def _is_new(self, producer_id: int, epoch: int, sequence: int, last_sequence: int) -> bool:
        producers = self._producers
        if sequence != 0 and producers.get(producer_id) is None:
            return False  # its leader may have to wait for what stands before
        try:
            found = producers.check(producer_id, epoch, sequence, last_sequence)
        except KafkaError:
            return False  # told by whoever takes the batch next
        return found is None

    def record(self) -> None:
        for producer_id, epoch, batch in self._appended:
            self._producers.record(producer_id, epoch, batch, transactional=False)
