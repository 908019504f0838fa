"""Offsets by timestamp (Log.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.segment.segment import Segment
from ottla.wire import records
from ottla.wire.primitives import WireError
from ottla.wire.records import BatchHeader


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
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.end_offset]
    parts = [
        segment
        for segment, end in zip(segments, ends, strict=True)
        if segment.size and end > log.start_offset
    ]
    if not parts:
        return None
    newest = max(parts, key=_max_timestamp)
    record = _first_at(newest, newest.max_timestamp, log.start_offset)
    if record is None and newest is parts[0]:
        # It was deleted with DeleteRecords; Kafka names it all the same.
        kept = _largest_kept(newest, log.start_offset)
        later = max(parts[1:], key=_max_timestamp, default=None)
        if later is not None and (kept is None or later.max_timestamp > kept.timestamp):
            return _first_at(later, later.max_timestamp, log.start_offset)
        return kept
    return record


def _max_timestamp(segment: Segment) -> int:
    return segment.max_timestamp


def _first_at(segment: Segment, timestamp: int, start_offset: int) -> TimedOffset | None:
    found = segment.locate_timestamp(timestamp, start_offset)
    return None if found is None else _first_record(segment, *found, timestamp, start_offset)


def _largest_kept(segment: Segment, start_offset: int) -> TimedOffset | None:
    """The record with the largest timestamp in a segment of which only the end is left."""
    largest: TimedOffset | None = None
    found = segment.locate(start_offset)
    while found is not None:
        position, header = found
        least = -1 if largest is None else largest.timestamp + 1
        for record in _records_from(segment, position, header, least, start_offset):
            if largest is None or record.timestamp > largest.timestamp:
                largest = record
        least = -1 if largest is None else largest.timestamp + 1
        found = segment.next_with_timestamp(position + header.size, least)
    return largest


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimedOffset | None:
    return next(_records_from(segment, position, header, timestamp, start_offset), None)


def _records_from(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> Iterator[TimedOffset]:
    """The records of a batch at or after both."""
    epoch = header.partition_leader_epoch
    # A batch that compaction went over may have lost its first records, or all.
    if header.is_log_append_time and header.record_count > header.last_offset_delta:
        yield TimedOffset(max(header.base_offset, start_offset), header.max_timestamp, epoch)
        return
    batch = segment.file().read_at(header.size, position)
    try:
        for record in records.iter_records(batch):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                yield TimedOffset(record.offset, record.timestamp, epoch)
    except WireError as error:
        # From before records were looked at, or under ottla.records.validate=header.
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
