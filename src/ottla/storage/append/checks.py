"""What a leader checks in batches from a client (Log.analyzeAndValidateRecords, LogValidator).

The usual batch is checked by its header and CRC alone. Records are looked at only where a rule
needs them: compacted topics (null keys), a bounded timestamp difference, another codec. Left out:
that inner offset deltas count 0, 1, 2… and that the header's largest timestamp is that of the
records; both are the producer's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import CODEC_MASK, CONTROL, LOG_APPEND_TIME, BatchHeader

CODECS = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_LONG_MAX = 0x7FFFFFFFFFFFFFFF


class Origin(Enum):
    """Who appends as leader: a client, or this broker's own coordinator."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class RecordError(NamedTuple):
    batch_index: int
    message: str | None


class RecordsRejected(KafkaError):
    """A batch whose records break a rule; names the records (KIP-467)."""

    def __init__(self, code: ErrorCode, errors: list[RecordError]) -> None:
        super().__init__(
            code,
            "One or more records have been rejected due to invalid timestamp"
            if code is ErrorCode.INVALID_TIMESTAMP
            else "One or more records have been rejected",
        )
        self.record_errors = errors


class Batch(NamedTuple):
    """One whole batch of an append with its header."""

    view: memoryview
    header: BatchHeader


def split(data: memoryview) -> list[Batch]:
    """Whole batches; bytes after the last whole one are cut off silently, as Kafka does."""
    try:
        if len(data) == records.size_at(data):
            # The usual case: one batch and nothing else.
            return [Batch(data, records.read_header(data))]
        return [Batch(view, header) for header, view in records.iter_batches(data)]
    except records.OldMagic as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Only record batches of magic 2 are accepted, not {error.magic}",
        ) from None
    except WireError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Not a record batch: {error}") from None


def check(
    tp: TopicPartition, batch: Batch, settings: LogConfig, origin: Origin, now_ms: int
) -> None:
    """Raises KafkaError in the order of Kafka's own checks."""
    header = batch.header
    client = origin is Origin.CLIENT
    if client and header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {tp} should be 0, but it is "
            f"{header.base_offset}",
        )
    check_size(tp, len(batch.view), settings)
    if not records.crc_is_valid(batch.view):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt in topic partition {tp}: wrong CRC"
        )
    codec = header.attributes & CODEC_MASK
    if codec > CODECS["zstd"]:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {codec}")
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Record batch in {tp} has {count} records but a last offset delta of "
            f"{header.last_offset_delta}",
        )
    if client and header.attributes & CONTROL:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Clients are not allowed to write control records in topic partition {tp}.",
        )
    if client and header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}",
        )
    if not header.attributes & CONTROL:
        _check_records(tp, batch, settings, now_ms)


def check_size(tp: TopicPartition, size: int, settings: LogConfig) -> None:
    if size > settings.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {tp} is {size} bytes which exceeds the "
            f"maximum configured value of {settings.max_message_bytes}.",
        )


def _check_records(tp: TopicPartition, batch: Batch, settings: LogConfig, now_ms: int) -> None:
    if batch.header.attributes & LOG_APPEND_TIME:
        raise append_time_refused(tp, len(_iterate(batch)))
    if _looks_inside(settings):
        check_each(tp, _iterate(batch), settings, now_ms)


def append_time_refused(tp: TopicPartition, count: int) -> RecordsRejected:
    """For records whose producer gave them the time of the broker's clock."""
    text = (
        f"Invalid timestamp type in message to {tp}. Producer should not set timestamp type "
        "to LogAppendTime."
    )
    errors = [RecordError(number, text) for number in range(count)]
    return RecordsRejected(ErrorCode.INVALID_TIMESTAMP, errors)


def _looks_inside(settings: LogConfig) -> bool:
    """Whether a rule of the topic needs the records."""
    return settings.compact or _bounds_timestamps(settings)


def _bounds_timestamps(settings: LogConfig) -> bool:
    return (
        settings.message_timestamp_type != "LogAppendTime"
        and settings.message_timestamp_difference_max_ms < _LONG_MAX
    )


def check_each(
    tp: TopicPartition, found: Iterable[records.Record], settings: LogConfig, now_ms: int
) -> None:
    """Rules for single records: a key where the topic is compacted, a time near the broker's."""
    compacted = settings.compact
    bounded = _bounds_timestamps(settings)
    difference_ms = settings.message_timestamp_difference_max_ms
    keyless: list[RecordError] = []
    ill_timed: list[RecordError] = []
    for number, record in enumerate(found):
        if compacted and record.key is None:
            keyless.append(
                RecordError(
                    number,
                    f"Compacted topic cannot accept message without key in topic partition {tp}.",
                )
            )
        elif bounded and record.timestamp != -1 and abs(record.timestamp - now_ms) > difference_ms:
            ill_timed.append(
                RecordError(
                    number,
                    f"Timestamp {record.timestamp} of message with offset {number} is out of "
                    f"range. The timestamp should be within [{now_ms - difference_ms}, "
                    f"{now_ms + difference_ms}]",
                )
            )
    if ill_timed:
        raise RecordsRejected(ErrorCode.INVALID_TIMESTAMP, sorted(ill_timed + keyless))
    if keyless:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, keyless)


def _iterate(batch: Batch) -> list[records.Record]:
    try:
        return list(records.iter_records(batch.view))
    except WireError as error:
        compressed = batch.header.attributes & CODEC_MASK
        code = ErrorCode.UNKNOWN_SERVER_ERROR if compressed else ErrorCode.INVALID_RECORD
        raise KafkaError(code, f"The records of a batch cannot be read: {error}") from None


def with_topic_codec(tp: TopicPartition, batch: Batch, settings: LogConfig) -> Batch:
    """The batch in the codec that the topic asks for; itself where that is already so."""
    wanted = settings.compression_type
    attributes = batch.header.attributes
    if wanted == "producer" or attributes & CONTROL:
        return batch
    codec = CODECS[wanted]
    if codec == attributes & CODEC_MASK:
        return batch
    header = batch.header
    rebuilt = records.build_batch(
        _iterate(batch),
        compression=codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    check_size(tp, len(rebuilt), settings)
    view = memoryview(bytearray(rebuilt))
    return Batch(view, records.read_header(view, 0))
