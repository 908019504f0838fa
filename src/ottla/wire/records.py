"""Record batches of format v2: header, checksum, records, markers.

A batch is handled as a view on the bytes it came in. Only `iter_records` looks inside. Layout and
names follow DefaultRecordBatch and DefaultRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from mmap import mmap
from typing import Any, NamedTuple

from ottla.wire.checksum import crc32c
from ottla.wire.compression import (
    DEFAULT_MAX_OUTPUT_BYTES,
    CompressionError,
    OutputTooLarge,
    compress,
    decompress,
)
from ottla.wire.primitives import Buffer, WireError

__all__ = [
    "BatchHeader",
    "CompressionError",
    "CorruptBatch",
    "Marker",
    "OldMagic",
    "OutputTooLarge",
    "Record",
    "build_batch",
    "build_batch_in_steps",
    "build_marker",
    "compress",
    "crc_is_valid",
    "decompress",
    "iter_batches",
    "iter_plain_records",
    "iter_records",
    "parse_marker",
    "patch",
    "patch_append_time",
    "patch_create_time",
    "read_header",
    "size_at",
    "verify_crc",
]

MAGIC = 2
HEADER_BYTES = 61
# Base offset and length: what precedes the bytes that the length counts, in every format.
LOG_OVERHEAD_BYTES = 12

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_BASE_OFFSET = struct.Struct(">q")
_MAX_UNSIGNED = (1 << 64) - 1
_MAX_UNSIGNED_INT = (1 << 32) - 1
_LONG_LIMIT = 1 << 63
_MOST_INT_BYTES = 5
# Records that are built at a stretch: a batch of a few kilobytes may hold a million.
_STEP_RECORDS = 500
_CRC_OFFSET = 17
CRC_START = 21
_ATTRIBUTES_OFFSET = 21
# The byte that has all attributes in use.
ATTRIBUTES_LOW_AT = 22
_MAX_TIMESTAMP_OFFSET = 35
MAGIC_AT = 16
# The smallest batch length of any format (LegacyRecord.RECORD_OVERHEAD_V0).
_MIN_BATCH_LENGTH = 14
_MAX_SEQUENCE = 0x7FFFFFFF
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")


class CorruptBatch(WireError):
    """Bytes that are not a record batch, or whose checksum is wrong."""


class OldMagic(WireError):
    """A batch of message format 0 or 1."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format {magic} is not supported, only {MAGIC}")
        self.magic = magic


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, and the size of the whole batch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; they wrap from the largest int to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE


class Record(NamedTuple):
    """One record; `offset` is -1 before it has a place in a log."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    headers: Sequence[tuple[str, bytes | None]] = ()
    offset: int = -1


class Marker(NamedTuple):
    """A transaction's end in a partition; types other than 0 and 1 exist and are skipped."""

    type: int
    coordinator_epoch: int
    version: int = 0

    @property
    def is_commit(self) -> bool:
        return self.type == 1

    @property
    def is_abort(self) -> bool:
        return self.type == 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at a position; the records need not be there."""
    left = len(buffer) - position
    if left >= HEADER_BYTES:
        fields = HEADER.unpack_from(buffer, position)
        size = fields[1] + LOG_OVERHEAD_BYTES
        if fields[3] == MAGIC and size >= HEADER_BYTES:
            return BatchHeader._make((*fields, size))
    raise _not_a_header(buffer, position, left)


def _not_a_header(buffer: Buffer, position: int, left: int) -> WireError:
    if left <= MAGIC_AT:
        return CorruptBatch(f"{left} bytes hold no record batch")
    _, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if length < _MIN_BATCH_LENGTH:
        return CorruptBatch(f"a batch length of {length}")
    if magic != MAGIC:
        if magic in (0, 1):
            return OldMagic(magic)
        return CorruptBatch(f"unknown message format {magic}")
    size = min(length + LOG_OVERHEAD_BYTES, left)
    return CorruptBatch(f"a batch of {size} bytes, a header has {HEADER_BYTES}")


def size_at(buffer: Buffer, position: int = 0) -> int:
    """The size of the batch at a position by its own word; -1 where there are too few bytes."""
    if len(buffer) - position < LOG_OVERHEAD_BYTES:
        return -1
    return int(_LENGTH.unpack_from(buffer, position + 8)[0]) + LOG_OVERHEAD_BYTES


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Headers and views of all whole batches. As in Kafka, bytes after the last are left out."""
    view = memoryview(buffer)
    position = 0
    while len(view) - position > MAGIC_AT:
        (length,) = _LENGTH.unpack_from(view, position + 8)
        end = position + LOG_OVERHEAD_BYTES + length
        if length >= _MIN_BATCH_LENGTH and end > len(view):
            return
        yield read_header(view, position), view[position:end]
        position = end


def crc_is_valid(batch: Buffer) -> bool:
    """Whether the checksum of one whole batch holds."""
    view = memoryview(batch)
    return bool(crc32c(view[CRC_START:]) == _CRC.unpack_from(view, _CRC_OFFSET)[0])


def verify_crc(batch: Buffer) -> None:
    """CorruptBatch unless the checksum of one whole batch holds."""
    if len(batch) < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {len(batch)} bytes, a header has {HEADER_BYTES}")
    if not crc_is_valid(batch):
        raise CorruptBatch("the checksum of a record batch is wrong")


def patch(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Sets what a leader assigns, in place; neither field is under the checksum."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LENGTH.pack_into(batch, LOG_OVERHEAD_BYTES, leader_epoch)


def patch_append_time(batch: memoryview, timestamp_ms: int) -> None:
    """Makes LogAppendTime of a batch, in place, and renews its checksum."""
    _patch_max_timestamp(batch, timestamp_ms, LOG_APPEND_TIME)


def patch_create_time(batch: memoryview, newest_ms: int) -> None:
    """Sets the latest timestamp of a batch's records, in place, and renews its checksum."""
    _patch_max_timestamp(batch, newest_ms, 0)


def _patch_max_timestamp(batch: memoryview, timestamp_ms: int, kind: int) -> None:
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_OFFSET)
    # Those that Kafka does not know go (DefaultRecordBatch.setMaxTimestamp).
    attributes = attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL) | kind
    struct.pack_into(">h", batch, _ATTRIBUTES_OFFSET, attributes)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_OFFSET, timestamp_ms)
    struct.pack_into(">I", batch, _CRC_OFFSET, crc32c(batch[CRC_START:]))


def read_varint(buffer: Buffer | mmap, position: int) -> tuple[int, int]:
    """A zig-zag varint of up to ten bytes and its end; of the tenth only the bit that still fits 64
    counts, as in Java."""
    byte = buffer[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 127, 7
    while True:
        position += 1
        byte = buffer[position]
        value |= (byte & 127) << shift
        if byte < 128:
            value &= _MAX_UNSIGNED
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint in a record has more than ten bytes")


def read_int(buffer: Buffer | mmap, position: int) -> tuple[int, int]:
    """The same for numbers of 32 bits: up to five bytes, and what is above does not count."""
    byte = buffer[position]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 127, 7
    for end in range(position + 1, position + _MOST_INT_BYTES):
        byte = buffer[end]
        value |= (byte & 127) << shift
        if byte < 128:
            value &= _MAX_UNSIGNED_INT
            return (value >> 1) ^ -(value & 1), end + 1
        shift += 7
    raise CorruptBatch("a number in a record has more than five bytes")


def _write_varint(out: bytearray, value: int) -> None:
    value = value << 1 ^ value >> 63
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _read_bytes(buffer: bytes | mmap, position: int, end: int) -> tuple[bytes | None, int]:
    """As Kafka does, takes any negative length for null."""
    length, position = read_int(buffer, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise CorruptBatch(f"{length} bytes reach past the end of their record")
    return buffer[position:stop], stop


def _read_headers(
    buffer: bytes | mmap, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_int(buffer, position)
    if count == 0:
        return (), position
    # A header takes two bytes at least.
    if not 0 < count <= (end - position) // 2:
        raise CorruptBatch(f"{count} headers in a record")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(buffer, position, end)
        if key is None:
            raise CorruptBatch("a header without a key")
        value, position = _read_bytes(buffer, position, end)
        # Java puts a replacement character where a name is no text.
        headers.append((key.decode(errors="replace"), value))
    return tuple(headers), position


def iter_records(batch: Buffer, max_bytes: int = DEFAULT_MAX_OUTPUT_BYTES) -> Iterator[Record]:
    """The records of one whole batch, decoded one by one."""
    header = read_header(batch)
    if header.size > len(batch):
        raise CorruptBatch(f"a batch of {header.size} bytes, {len(batch)} are there")
    body = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size], max_bytes)
    return iter_plain_records(body if isinstance(body, mmap) else bytes(body), header)


def iter_plain_records(plain: bytes | mmap, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch whose body is decompressed already."""
    position, end = 0, len(plain)
    # A record takes seven bytes at least; without this a lie in the count shows only at the end.
    if not 0 <= header.record_count <= end // 7:
        raise CorruptBatch(f"{header.record_count} records in {end} bytes")
    try:
        for _ in range(header.record_count):
            record, position = _read_record(plain, position, end, header)
            yield record
    except IndexError as error:
        raise CorruptBatch(f"a record is cut short: {error}") from error
    if position != end:
        raise CorruptBatch(f"{end - position} bytes after the last record")


def _read_record(
    plain: bytes | mmap, position: int, end: int, header: BatchHeader
) -> tuple[Record, int]:
    length, position = read_int(plain, position)
    stop = position + length
    if length < 0 or stop > end:
        raise CorruptBatch(f"a record of {length} bytes with {end - position} left")
    timestamp_delta, position = read_varint(plain, position + 1)
    offset_delta, position = read_int(plain, position)
    key, position = _read_bytes(plain, position, stop)
    value, position = _read_bytes(plain, position, stop)
    headers, position = _read_headers(plain, position, stop)
    if position != stop:
        raise CorruptBatch("the size of a record does not fit its content")
    if header.attributes & LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
        if not -_LONG_LIMIT <= timestamp < _LONG_LIMIT:
            timestamp = wrapped(timestamp)
    return Record(key, value, timestamp, headers, header.base_offset + offset_delta), stop


def wrapped(value: int) -> int:
    """What is left of a sum in 64 bits, as Java has it."""
    return (value + _LONG_LIMIT) % (2 * _LONG_LIMIT) - _LONG_LIMIT


def _append_bytes(out: bytearray, value: Buffer | None) -> None:
    if value is None:
        out.append(1)  # zig-zag of -1
    else:
        _write_varint(out, len(value))
        out += value


def _append_record(out: bytearray, record: Record, timestamp_delta: int, offset_delta: int) -> None:
    body = bytearray(1)  # attributes: none are defined
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    _write_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_bytes(body, key.encode())
        _append_bytes(body, value)
    _write_varint(out, len(body))
    out += body


def build_batch(records: Iterable[Record], **options: Any) -> bytes:
    """As `build_batch_in_steps`, at once."""
    steps = build_batch_in_steps(records, **options)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bytes(done.value)


def build_of_entries(
    entries: Iterable[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """As `build_batch` for keys and values of one moment, without an object for each."""
    body = bytearray()
    count = 0
    for key, value in entries:
        # Attributes, timestamp delta; at the end the number of headers.
        parts = [b"\x00\x00", _varint(count), _varint(len(key)), key]
        parts += (b"\x01",) if value is None else (_varint(len(value)), value)
        record = b"".join([*parts, b"\x00"])
        body += _varint(len(record))
        body += record
        count += 1
    attributes = TRANSACTIONAL if transactional else 0
    start = (0, 0, -1, MAGIC, 0, attributes, count - 1, timestamp_ms, timestamp_ms)
    return assemble((*start, producer_id, producer_epoch, base_sequence, count), body)


@lru_cache(maxsize=4096)
def _varint(value: int) -> bytes:
    """Signed, as lengths and deltas are; those of most records are a few dozen."""
    out = bytearray()
    _write_varint(out, value)
    return bytes(out)


def build_batch_in_steps(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
) -> Generator[None, None, bytes]:
    """A batch of records, numbered from 0 on unless `keep_offsets`, with a pause after every few
    hundred of them for whoever has more to do; none of them is kept.

    `last_offset_delta` may lie beyond the last record, as compaction leaves it.
    """
    base_timestamp = max_timestamp = -1
    body = bytearray()
    delta, count = -1, 0
    for record in records:
        if not count:
            base_timestamp = max_timestamp = record.timestamp
        elif count % _STEP_RECORDS == 0:
            yield
        delta = record.offset - base_offset if keep_offsets else count
        _append_record(body, record, record.timestamp - base_timestamp, delta)
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        count += 1
    attributes = compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    last_delta = delta if last_offset_delta is None else last_offset_delta
    start = (base_offset, 0, leader_epoch, MAGIC, 0, attributes, last_delta)
    times = (base_timestamp, max_timestamp)
    header = (*start, *times, producer_id, producer_epoch, base_sequence, count)
    return assemble(header, compress(compression, body) if compression else body)


def assemble(fields: tuple[int, ...], content: Buffer) -> bytes:
    """A batch of its header's fields (the length and the checksum are set) and its body."""
    batch = bytearray(HEADER_BYTES)
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(content)
    HEADER.pack_into(batch, 0, fields[0], length, *fields[2:])
    batch += content
    struct.pack_into(">I", batch, _CRC_OFFSET, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def build_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction (EndTransactionMarker)."""
    key = _MARKER_KEY.pack(0, 1 if commit else 0)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [Record(key, value, timestamp_ms)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def parse_marker(batch: Buffer) -> Marker:
    """The marker in a control batch; of higher versions the known part, as Kafka does."""
    record = next(iter_records(batch), None)
    if record is None or record.key is None or len(record.key) < _MARKER_KEY.size:
        raise CorruptBatch("a control batch without a control record")
    key_version, kind = _MARKER_KEY.unpack_from(record.key)
    if key_version < 0:
        raise CorruptBatch(f"a control record of version {key_version}")
    if kind not in (0, 1):
        return Marker(kind, -1, key_version)
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise CorruptBatch("a transaction marker without a value")
    version, epoch = _MARKER_VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"a transaction marker of version {version}")
    return Marker(kind, epoch, version)
