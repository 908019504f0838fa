"""What compaction leaves of one batch (MemoryRecords.filterTo): pure, bytes in and bytes out.

Base offset, last offset delta, sequences, epochs and the codec stay; records that go leave gaps.
"""

from __future__ import annotations

import struct

from ottla.storage.compaction.offset_map import OffsetMap
from ottla.storage.compaction.record_spans import plain_records, record_spans
from ottla.wire.checksum import crc32c
from ottla.wire.compression import compress
from ottla.wire.primitives import Buffer
from ottla.wire.records import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader

_NO_TIMESTAMP = -1


def retained(
    batch: Buffer, header: BatchHeader, newest: OffsetMap, *, retain_deletes: bool
) -> Buffer | None:
    """The batch without superseded records; None where nothing is left of it.

    A record stays if the map does not reach it, or if it is the newest of its key and has a value
    or is a tombstone that must still be seen. Records without a key cannot be compacted and go.
    """
    if header.base_offset >= newest.end_offset:
        return batch
    plain = plain_records(batch, header)
    kept: list[tuple[int, int]] = []
    latest_delta = None
    spans = record_spans(plain, header.record_count)
    for start, end, timestamp_delta, offset_delta, key, has_value in spans:
        offset = header.base_offset + offset_delta
        if offset < newest.end_offset and (
            key is None or offset < newest.newest(key) or not (has_value or retain_deletes)
        ):
            continue
        kept.append((start, end))
        if latest_delta is None or timestamp_delta > latest_delta:
            latest_delta = timestamp_delta
    if len(kept) == len(spans):
        return batch
    if latest_delta is None:
        return None
    body = b"".join([plain[start:end] for start, end in kept])
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + latest_delta
    content = compress(header.codec, body) if header.codec else body
    return _with_records(batch, content, len(kept), max_timestamp)


def emptied(batch: Buffer, header: BatchHeader) -> bytes:
    """The header alone, which keeps a producer's sequence and epoch (writeEmptyHeader)."""
    alone = bytearray(batch[:HEADER_BYTES])
    struct.pack_into(">h", alone, 21, header.attributes & ~CODEC_MASK)
    struct.pack_into(">q", alone, 27, _NO_TIMESTAMP)
    return _with_records(alone, b"", 0, header.max_timestamp)


def _with_records(batch: Buffer, content: Buffer, count: int, max_timestamp: int) -> bytes:
    """The header of `batch` in front of other records."""
    out = bytearray(batch[:HEADER_BYTES])
    out += content
    struct.pack_into(">i", out, 8, len(out) - LOG_OVERHEAD_BYTES)
    struct.pack_into(">q", out, 35, max_timestamp)
    struct.pack_into(">i", out, 57, count)
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return bytes(out)
