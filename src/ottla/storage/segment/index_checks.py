"""Whether the indexes that a segment's files hold are those of its log.

Kafka trusts all that is in them (AbstractIndex.sanityCheck looks at sizes alone). A wrong position
makes readers skip records or meet nonsense, and a wrong last timestamp makes retention delete a
segment too early. A few bytes of the log tell most such damage when the files are read; what a
lookup meets later (`Segment.locate`) tells the rest.
"""

from __future__ import annotations

from array import array
from itertools import islice
from operator import le, lt

from ottla.runtime import File
from ottla.storage.segment import batch_scan
from ottla.storage.segment.batch_scan import LOOKUP_WINDOW_BYTES, LogDamaged
from ottla.storage.segment.index import IndexDamaged, OffsetIndex, TimeIndex
from ottla.wire.records import BatchHeader


def check_indexes(
    file: File,
    base_offset: int,
    size: int,
    interval_bytes: int,
    offsets: OffsetIndex,
    times: TimeIndex,
) -> None:
    """Raises IndexDamaged, even where the log itself is damaged at the places looked at."""
    try:
        _check_offsets(file, base_offset, size, interval_bytes, offsets)
        _check_times(file, base_offset, size, offsets, times)
    except LogDamaged as damage:
        raise IndexDamaged(str(damage)) from None


def _check_offsets(
    file: File, base_offset: int, size: int, interval_bytes: int, index: OffsetIndex
) -> None:
    if not len(index):
        if _wants_entries(file, size, interval_bytes):
            raise IndexDamaged("the offset index is empty")
        return
    if not (_increases(index.offsets) and _increases(index.positions)):
        raise IndexDamaged("the offset index does not increase")
    if index.offsets[0] < 0 or index.positions[0] < 0:
        raise IndexDamaged("the offset index has negative entries")
    header = _header_at(file, index.last_position(), size)
    before = index.offsets[-2] if len(index) > 1 else -1
    if not before < header.base_offset - base_offset <= index.offsets[-1]:
        raise IndexDamaged(f"offset {header.base_offset} is not where the offset index has it")


def _check_times(
    file: File, base_offset: int, size: int, offsets: OffsetIndex, times: TimeIndex
) -> None:
    last = times.last()
    if last is None:
        header = _header_at(file, 0, size)
        if header.max_timestamp >= 0 and header.record_count:
            raise IndexDamaged("the time index is empty")
        return
    if not all(map(le, times.offsets, islice(times.offsets, 1, None))):
        raise IndexDamaged("the time index does not increase")
    timestamp, relative_offset = last
    start = offsets.position_before(relative_offset)
    for _, header in batch_scan.headers(file, start, size, window_bytes=LOOKUP_WINDOW_BYTES):
        if header.base_offset + header.last_offset_delta - base_offset >= relative_offset:
            if header.max_timestamp == timestamp:
                break
            raise IndexDamaged(f"no batch has the last timestamp of the time index, {timestamp}")
    else:
        raise IndexDamaged(f"the time index names offset {base_offset + relative_offset}")
    end = offsets.last_position()
    for _, header in batch_scan.headers(file, end, size, window_bytes=LOOKUP_WINDOW_BYTES):
        if header.max_timestamp > timestamp and header.record_count:
            raise IndexDamaged("the time index ends too early")


def _wants_entries(file: File, size: int, interval_bytes: int) -> bool:
    """Whether a batch starts behind the bytes that an index may leave out."""
    for position, _ in batch_scan.headers(file, 0, size, window_bytes=LOOKUP_WINDOW_BYTES):
        if position > interval_bytes:
            return True
    return False


def _increases(numbers: array[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


def _header_at(file: File, position: int, size: int) -> BatchHeader:
    for _, header in batch_scan.headers(file, position, size, window_bytes=LOOKUP_WINDOW_BYTES):
        return header
    raise LogDamaged(position, "no batch")
