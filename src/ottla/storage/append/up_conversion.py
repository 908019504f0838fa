"""Message sets of clients older than 0.11 become one record batch (LogValidator).

Logs hold record batches only. What such a client sends is checked as 2.8.2 checks it, message by
message, and put together anew, in the codec it came in unless the topic asks for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import CODECS, Batch, check_size
from ottla.storage.append.record_rules import RecordRules
from ottla.storage.append.steps import Pause, Steps
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import message_sets, records
from ottla.wire.message_sets import Message
from ottla.wire.primitives import WireError
from ottla.wire.records import HEADER_BYTES, MAGIC, MAGIC_AT, Record

# A record of a batch takes at least so much less than a message with the same key and value.
_SAVED_BYTES = 27
# Entries that are looked at between two pauses.
_STEP_ENTRIES = 1000
# What is unpacked of a wrapper on the event loop.
_QUICK_PLAIN_BYTES = 128 * 1024


def is_message_set(data: memoryview) -> bool:
    """By its first entry, as everything in it has to have the same format."""
    return len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC


def convert_up(
    tp: TopicPartition, data: memoryview, settings: LogConfig, now_ms: int
) -> Steps[Batch | None]:
    """The batch that is appended, None if no message is whole; raises KafkaError."""
    try:
        entries = yield from _whole_entries(tp, data, settings)
        if not entries:
            return None
        converted = yield from _converted(tp, entries, settings, now_ms)
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


def _whole_entries(
    tp: TopicPartition, data: memoryview, settings: LogConfig
) -> Steps[list[memoryview]]:
    """Log.analyzeAndValidateRecords."""
    entries: list[memoryview] = []
    for entry in message_sets.iter_entries(data):
        if len(entries) % _STEP_ENTRIES == _STEP_ENTRIES - 1:
            yield Pause.SHORT
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
) -> Steps[bytes]:
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
    elif len(entries) > 1:
        raise message_sets.InvalidMessageSet("a compressed message among others")
    else:
        found = yield from _of_wrapper(tp, wrapper, settings, now_ms)
    steps = records.build_batch_in_steps(found, compression=target)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return bytes(done.value)
        yield Pause.SHORT


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
        message = message_sets.read_message(entry)
        rules = _rules(tp, message, settings, now_ms)
        yield from _checked([message], rules)


def _of_wrapper(
    tp: TopicPartition, entry: memoryview, settings: LogConfig, now_ms: int
) -> Steps[Iterator[Record]]:
    wrapper = message_sets.read_message(entry)
    try:
        plain = message_sets.unwrapped(wrapper, _QUICK_PLAIN_BYTES)
    except records.OutputTooLarge:
        # Half a million messages perhaps.
        yield Pause.LONG
        plain = message_sets.unwrapped(wrapper, message_sets.DEFAULT_MAX_INNER_BYTES)
    rules = _rules(tp, wrapper, settings, now_ms)
    return _checked(message_sets.inner_messages_of(wrapper, plain), rules)


def _rules(tp: TopicPartition, message: Message, settings: LogConfig, now_ms: int) -> RecordRules:
    return RecordRules(
        tp, settings, now_ms, has_append_time=message.is_log_append_time, record_kind="LegacyRecord"
    )


def _checked(messages: Iterable[Message], rules: RecordRules) -> Iterator[Record]:
    """As records; after one that breaks a rule they are only looked at."""
    for number, message in enumerate(messages):
        record = Record(message.key, message.value, message.timestamp, offset=number)
        if rules.note(number, record):
            break
        if message.timestamp < message_sets.NO_TIMESTAMP and not rules.has_noted:
            raise message_sets.MalformedMessage(f"a negative timestamp of {message.timestamp}")
        yield record
    rules.raise_noted()
