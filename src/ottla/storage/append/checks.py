"""What a leader checks in batches from a client (Log.analyzeAndValidateRecords, LogValidator).

Here is what its header tells. Records are looked at after that (storage/append/inner.py), unless
`ottla.records.validate=header` leaves them to the producer's word where no rule needs them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import CODEC_MASK, CONTROL, BatchHeader

CODECS = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Origin(Enum):
    """Who appends as leader: a client, or this broker's own coordinator."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


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


def check(tp: TopicPartition, batch: Batch, settings: LogConfig, origin: Origin) -> None:
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


def check_size(tp: TopicPartition, size: int, settings: LogConfig) -> None:
    if size > settings.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {tp} is {size} bytes which exceeds the "
            f"maximum configured value of {settings.max_message_bytes}.",
        )
