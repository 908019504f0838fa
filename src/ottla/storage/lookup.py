"""Offsets by timestamp (Log.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import BatchHeader

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def offset_at_or_after(log: Log, timestamp: int) -> TimedOffset | None:
    """The first record with that time or a later one, at or after the log's start."""
    for segment in log.segments:
        if segment.size == 0 or segment.max_timestamp < timestamp:
            continue
        found = segment.locate_timestamp(timestamp, log.start_offset)
        while found is not None:
            position, header = found
            record = _first_record(segment, position, header, timestamp, log.start_offset)
            if record is not None:
                return record
            found = segment.next_with_timestamp(position + header.size, timestamp)
    return None


def offset_of_max_timestamp(log: Log) -> TimedOffset | None:
    """The record with the largest timestamp (KIP-734); None in a log without any."""
    parts = [segment for segment in log.segments if segment.size]
    if not parts:
        return None
    newest = max(parts, key=lambda segment: segment.max_timestamp)
    timestamp = newest.max_timestamp
    found = newest.locate_timestamp(timestamp, log.start_offset)
    if found is None:
        return None
    position, header = found
    return _first_record(newest, position, header, timestamp, log.start_offset)


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimedOffset | None:
    if header.is_log_append_time:
        offset = max(header.base_offset, start_offset)
        return TimedOffset(offset, header.max_timestamp, header.partition_leader_epoch)
    batch = segment.file().read_at(header.size, position)
    try:
        for record in records.iter_records(batch):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimedOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    except WireError as error:
        # Records of a client's batch are not looked at when it comes in.
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return None
