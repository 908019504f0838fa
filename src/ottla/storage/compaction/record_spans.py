"""Where the records of a batch lie, without making objects of them (compaction, `dump-log`).

Compaction copies the bytes of the records it keeps: their deltas count from the batch's base offset
and base timestamp, which stay.
"""

from __future__ import annotations

from ottla.wire.compression import decompress
from ottla.wire.primitives import Buffer
from ottla.wire.records import HEADER_BYTES, BatchHeader, CorruptBatch, read_int, read_varint

# (start, end, timestamp delta, offset delta, key or None, whether there is a value)
RecordSpan = tuple[int, int, int, int, bytes | None, bool]


def plain_records(batch: Buffer, header: BatchHeader) -> bytes:
    """The bytes after the header, decompressed."""
    return bytes(decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size]))


def record_spans(plain: bytes, count: int) -> list[RecordSpan]:
    """One entry per record; raises CorruptBatch where the bytes are not `count` records."""
    spans: list[RecordSpan] = []
    position, total = 0, len(plain)
    try:
        for _ in range(count):
            start = position
            length, position = read_int(plain, position)
            end = position + length
            if length < 0 or end > total:
                raise CorruptBatch(f"a record of {length} bytes with {total - position} left")
            # One byte of attributes comes first; none are defined.
            timestamp_delta, position = read_varint(plain, position + 1)
            offset_delta, position = read_int(plain, position)
            key_length, position = read_int(plain, position)
            key = None
            if key_length >= 0:
                key = plain[position : position + key_length]
                position += key_length
            value_length, position = read_int(plain, position)
            if position + max(0, value_length) > end:
                raise CorruptBatch("a key or value reaches past the end of its record")
            spans.append((start, end, timestamp_delta, offset_delta, key, value_length >= 0))
            position = end
    except IndexError:
        raise CorruptBatch("a record is cut short") from None
    if position != total:
        raise CorruptBatch(f"{total - position} bytes after the last record")
    return spans
