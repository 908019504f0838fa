"""Message sets of clients older than 0.11 become one record batch (LogValidator).

Logs hold record batches only. What such a client sends is checked as 2.8.2 checks it, message by
message, and put together anew, in the codec it came in unless the topic asks for another.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import (
    CODECS,
    Batch,
    append_time_refused,
    check_each,
    check_size,
)
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import message_sets, records
from ottla.wire.message_sets import Message
from ottla.wire.primitives import WireError
from ottla.wire.records import HEADER_BYTES, MAGIC, MAGIC_AT, Record

# A record of a batch takes at least so much less than a message with the same key and value.
_SAVED_BYTES = 27


def is_message_set(data: memoryview) -> bool:
    """By its first entry, as everything in it has to have the same format."""
    return len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC


def convert_up(
    tp: TopicPartition, data: memoryview, settings: LogConfig, now_ms: int
) -> Batch | None:
    """The batch that is appended, None if no message is whole; raises KafkaError."""
    try:
        entries = _whole_entries(tp, data, settings)
        if not entries:
            return None
        converted = _converted(tp, entries, settings, now_ms)
    except records.CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt in {tp}: {error}") from None
    except message_sets.InvalidMessageSet as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Append to {tp}: {error}") from None
    except records.OutputTooLarge as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"Append to {tp}: {error}") from None
    except WireError as error:
        # In Kafka these are what its libraries raise.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Append to {tp}: {error}") from None
    check_size(tp, len(converted), settings)
    view = memoryview(bytearray(converted))
    return Batch(view, records.read_header(view))


def _whole_entries(tp: TopicPartition, data: memoryview, settings: LogConfig) -> list[memoryview]:
    """Log.analyzeAndValidateRecords."""
    entries = []
    for entry in message_sets.iter_entries(data):
        check_size(tp, len(entry), settings)
        is_batch = entry[MAGIC_AT] == MAGIC
        if is_batch and len(entry) < HEADER_BYTES:
            raise records.CorruptBatch("too few bytes for a record batch")
        if not (records if is_batch else message_sets).crc_is_valid(entry):
            raise records.CorruptBatch("wrong CRC")
        entries.append(entry)
    return entries


def _converted(
    tp: TopicPartition, entries: list[memoryview], settings: LogConfig, now_ms: int
) -> bytes:
    magic = entries[0][MAGIC_AT]
    if any(entry[MAGIC_AT] != magic for entry in entries):
        raise message_sets.InvalidMessageSet("messages of several formats")
    wrapper = next((entry for entry in entries if message_sets.codec_of(entry)), None)
    source = 0 if wrapper is None else message_sets.codec_of(wrapper)
    target = (
        source if settings.compression_type == "producer" else CODECS[settings.compression_type]
    )
    if wrapper is None:
        _check_plain_size(tp, entries, target, settings)
        found = _of_plain_messages(tp, entries, settings, now_ms)
        return records.build_batch(found, compression=target)
    if len(entries) > 1:
        raise message_sets.InvalidMessageSet("a compressed message among others")
    return records.build_batch(_of_wrapper(tp, wrapper, settings, now_ms), compression=target)


def _check_plain_size(
    tp: TopicPartition, entries: list[memoryview], target: int, settings: LogConfig
) -> None:
    """What must become too large is refused before all of it is converted."""
    plain_bytes = sum(map(len, entries)) - _SAVED_BYTES * len(entries)
    if target == 0:
        check_size(tp, plain_bytes, settings)
    elif plain_bytes > message_sets.DEFAULT_MAX_INNER_BYTES:
        raise records.OutputTooLarge(f"more than {message_sets.DEFAULT_MAX_INNER_BYTES} bytes")


def _of_plain_messages(
    tp: TopicPartition, entries: list[memoryview], settings: LogConfig, now_ms: int
) -> Iterator[Record]:
    """Each is a batch of its own for Kafka: the first that breaks a rule ends it."""
    for entry in entries:
        yield from _checked(tp, [message_sets.read_message(entry)], settings, now_ms)


def _of_wrapper(
    tp: TopicPartition, entry: memoryview, settings: LogConfig, now_ms: int
) -> list[Record]:
    wrapper = message_sets.read_message(entry)
    return _checked(tp, list(message_sets.inner_messages(wrapper)), settings, now_ms)


def _checked(
    tp: TopicPartition, messages: list[Message], settings: LogConfig, now_ms: int
) -> list[Record]:
    if messages[0].is_log_append_time:
        raise append_time_refused(tp, len(messages))
    found = [Record(message.key, message.value, message.timestamp) for message in messages]
    check_each(tp, found, settings, now_ms)
    for record in found:
        if record.timestamp < message_sets.NO_TIMESTAMP:
            raise message_sets.MalformedMessage(f"a negative timestamp of {record.timestamp}")
    return found
