"""Message sets: the record formats 0 and 1 of clients older than Kafka 0.11.

An entry is an offset, a size and one message. Compressed messages stand together in the value of
one more message, the wrapper, whose offset is that of the last of them; inside it format 0 counts
offsets as the log does, format 1 from 0 on. Layout and names follow LegacyRecord and
AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple
from zlib import crc32

from ottla.wire import lz4_header
from ottla.wire.compression import (
    DEFAULT_MAX_OUTPUT_BYTES,
    LZ4,
    NONE,
    ZSTD,
    CompressionError,
    compress,
    decompress,
)
from ottla.wire.primitives import Buffer, WireError
from ottla.wire.records import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    CorruptBatch,
    Record,
    iter_records,
    read_header,
)

__all__ = [
    "InvalidMessageSet",
    "MalformedMessage",
    "Message",
    "build_message_set",
    "codec_of",
    "crc_is_valid",
    "down_convert",
    "down_convert_in_steps",
    "inner_messages",
    "inner_messages_of",
    "iter_entries",
    "read_message",
    "unwrapped",
]

# A wrapper of max.message.bytes (1 MiB) rarely holds more; messages are converted one by one.
DEFAULT_MAX_INNER_BYTES = 16 * 1024 * 1024
NO_TIMESTAMP = -1
# What a message of format 0 takes without key and value (LegacyRecord.RECORD_OVERHEAD_V0).
MIN_MESSAGE_BYTES = 14
# Converted at a stretch: a batch of a few kilobytes may hold a million records.
_STEP_RECORDS = 500

_ANY_MAGIC = 0xFF
_OFFSET_AND_SIZE = struct.Struct(">qi")
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_OFFSET = _TIMESTAMP = struct.Struct(">q")
_MAGIC_AND_ATTRIBUTES = struct.Struct(">BB")
_CRC_END = LOG_OVERHEAD_BYTES + _CRC.size
_ATTRIBUTES_AT = MAGIC_AT + 1
_AFTER_ATTRIBUTES = _ATTRIBUTES_AT + 1


class InvalidMessageSet(WireError):
    """Whole and undamaged, but against the rules of message sets."""


class MalformedMessage(WireError):
    """A message whose checksum holds and whose fields do not fit into it."""


class Message(NamedTuple):
    """A message with its offset; a wrapper has a codec in its attributes."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Format 0 has neither timestamps nor a type of them."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)


def iter_entries(buffer: Buffer, newest_magic: int = MAGIC) -> Iterator[memoryview]:
    """Views of all whole entries, record batches among them (ByteBufferLogInputStream).

    Bytes after the last whole one are left out, as in Kafka. Checksums are not looked at.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= LOG_OVERHEAD_BYTES:
        _, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        if size < MIN_MESSAGE_BYTES:
            raise CorruptBatch(f"a message of {size} bytes, the smallest has {MIN_MESSAGE_BYTES}")
        if len(view) - position <= MAGIC_AT:
            return
        if view[position + MAGIC_AT] > newest_magic:
            raise CorruptBatch(f"unknown message format {view[position + MAGIC_AT]}")
        end = position + LOG_OVERHEAD_BYTES + size
        if end > len(view):
            return
        yield view[position:end]
        position = end


def codec_of(entry: Buffer) -> int:
    """The codec of one whole entry; 0 for a message that is no wrapper."""
    return entry[_ATTRIBUTES_AT] & CODEC_MASK


def crc_is_valid(entry: Buffer) -> bool:
    """Whether the checksum of one whole entry holds."""
    return bool(crc32(entry[_CRC_END:]) == _CRC.unpack_from(entry, LOG_OVERHEAD_BYTES)[0])


def read_message(entry: Buffer) -> Message:
    """The message of one whole entry. Like Kafka it takes any negative size for null, and leaves
    bytes after the value out."""
    view = memoryview(entry)
    magic, attributes = view[MAGIC_AT], view[_ATTRIBUTES_AT]
    position = _AFTER_ATTRIBUTES
    timestamp = NO_TIMESTAMP
    try:
        (offset,) = _OFFSET.unpack_from(view)
        if magic > 0:
            (timestamp,) = _TIMESTAMP.unpack_from(view, position)
            position += _TIMESTAMP.size
        key, position = _read_bytes(view, position)
        value, _ = _read_bytes(view, position)
    except struct.error as error:
        raise MalformedMessage(f"a message of {len(view)} bytes is cut short") from error
    return Message(offset, magic, attributes, timestamp, key, value)


def _read_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(view, position)
    position += _SIZE.size
    if size < 0:
        return None, position
    if size > len(view) - position:
        raise MalformedMessage(f"{size} bytes reach past the end of their message")
    return bytes(view[position : position + size]), position + size


def inner_messages(wrapper: Message, max_bytes: int = DEFAULT_MAX_INNER_BYTES) -> Iterator[Message]:
    """The messages of a wrapper with the offsets and times that hold in the log.

    Checked as Kafka does for produced ones: checksums, one format, no wrapper in a wrapper.
    """
    return inner_messages_of(wrapper, unwrapped(wrapper, max_bytes))


def inner_messages_of(wrapper: Message, plain: Buffer) -> Iterator[Message]:
    """The same where its value is decompressed already."""
    base_offset = _base_offset(wrapper, plain)
    for entry in iter_entries(plain, _ANY_MAGIC):
        message = read_message(entry)
        if message.codec != NONE:
            raise InvalidMessageSet("a compressed message inside a compressed message set")
        if message.magic != wrapper.magic:
            raise InvalidMessageSet(
                f"a message of format {message.magic} in a message set of {wrapper.magic}"
            )
        if not crc_is_valid(entry):
            raise CorruptBatch("the checksum of a message in a compressed set is wrong")
        if base_offset or wrapper.is_log_append_time:
            message = _placed(message, wrapper, base_offset)
        yield message


def _placed(message: Message, wrapper: Message, base_offset: int) -> Message:
    """With its offset in the log, and the wrapper's time if that is when it was appended."""
    placed = message._replace(offset=base_offset + message.offset)
    if not wrapper.is_log_append_time:
        return placed
    return placed._replace(
        timestamp=wrapper.timestamp, attributes=message.attributes | LOG_APPEND_TIME
    )


def unwrapped(wrapper: Message, max_bytes: int) -> memoryview:
    """The messages in a wrapper; raises OutputTooLarge."""
    if wrapper.codec == ZSTD:
        raise InvalidMessageSet("message sets cannot be compressed with zstd")
    if wrapper.value is None:
        raise InvalidMessageSet("a compressed message set without a value")
    block = wrapper.value
    if wrapper.codec == LZ4 and wrapper.magic == 0:
        block = lz4_header.with_right_checksum(block)
    return memoryview(decompress(wrapper.codec, block, max_bytes))


def _base_offset(wrapper: Message, plain: Buffer) -> int:
    """What the offsets inside are relative to."""
    last = deque(iter_entries(plain, _ANY_MAGIC), maxlen=1)
    if not last:
        raise InvalidMessageSet("a compressed message set without messages")
    # Some versions of librdkafka leave the wrapper's offset 0.
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0
    (last_offset,) = _OFFSET.unpack_from(last[0])
    if wrapper.offset < last_offset:
        raise InvalidMessageSet(
            f"a compressed message set at offset {wrapper.offset} whose last message is "
            f"{last_offset} from its first"
        )
    return int(wrapper.offset - last_offset)


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    compression: int = NONE,
    log_append_time: bool = False,
) -> bytes:
    """Records with their offsets as a message set, in one wrapper if compressed; headers have no
    place in it. Nothing for no records."""
    return _finished(
        _build_in_steps(
            records, magic=magic, compression=compression, log_append_time=log_append_time
        )
    )


def _finished(steps: Generator[None, None, bytes]) -> bytes:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bytes(done.value)


def _build_in_steps(
    records: Iterable[Record], *, magic: int, compression: int, log_append_time: bool
) -> Generator[None, None, bytes]:
    if compression == ZSTD:
        raise CompressionError("message sets cannot be compressed with zstd")
    attributes = LOG_APPEND_TIME if log_append_time and magic > 0 else 0
    out = bytearray()
    base_offset = last_offset = -1
    newest_ms = NO_TIMESTAMP
    for number, record in enumerate(records, start=1):
        if number % _STEP_RECORDS == 0:
            yield
        if base_offset < 0:
            # Only compressed messages of format 1 count from their first.
            base_offset = record.offset if magic > 0 and compression != NONE else 0
        last_offset = record.offset
        newest_ms = max(newest_ms, record.timestamp)
        message = Message(
            record.offset - base_offset,
            magic,
            attributes,
            record.timestamp,
            record.key,
            record.value,
        )
        _append_message(out, message)
    if compression == NONE or not out:
        return bytes(out)
    block = compress(compression, out)
    if compression == LZ4 and magic == 0:
        block = lz4_header.with_old_checksum(block)
    wrapped = bytearray()
    wrapper = Message(last_offset, magic, attributes | compression, newest_ms, None, block)
    _append_message(wrapped, wrapper)
    return bytes(wrapped)


def _append_message(out: bytearray, message: Message) -> None:
    body = bytearray(_MAGIC_AND_ATTRIBUTES.pack(message.magic, message.attributes))
    if message.magic > 0:
        body += _TIMESTAMP.pack(message.timestamp)
    for part in (message.key, message.value):
        if part is None:
            body += _SIZE.pack(-1)
        else:
            body += _SIZE.pack(len(part))
            body += part
    out += _OFFSET_AND_SIZE.pack(message.offset, _CRC.size + len(body))
    out += _CRC.pack(crc32(body))
    out += body


def down_convert(batch: Buffer, magic: int, first_offset: int) -> bytes:
    """One record batch as a message set in its own codec (RecordsUtil.downConvert)."""
    return _finished(down_convert_in_steps(batch, magic, first_offset))


def down_convert_in_steps(
    batch: Buffer, magic: int, first_offset: int, max_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
) -> Generator[None, None, bytes]:
    """As `down_convert`, with a pause after every few hundred records for whoever has more to do;
    OutputTooLarge before the first of them where the batch holds more than `max_bytes`.

    Headers go, markers of transactions have no counterpart. Uncompressed messages begin at
    `first_offset`, since librdkafka relies on it; inside a wrapper clients skip on their own.
    """
    header = read_header(batch)
    if header.is_control:
        return b""
    records = iter_records(batch, max_bytes)
    if header.codec == NONE:
        records = (record for record in records if record.offset >= first_offset)
    try:
        return (
            yield from _build_in_steps(
                records,
                magic=magic,
                compression=header.codec,
                log_append_time=header.is_log_append_time,
            )
        )
    except struct.error as error:
        raise CorruptBatch(f"a record that fits no message: {error}") from error
