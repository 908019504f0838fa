"""Offsets by timestamp (Log.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp).

A search asks for one batch after the other to be looked through and is told what was found there.
Whoever runs it may do that at once, or in steps beside the event loop where a batch is long: a
search holds nothing of the log meanwhile, and notices when it has changed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.storage.append.steps import Pause, Steps
from ottla.storage.log.log import Log
from ottla.storage.segment.segment import Segment
from ottla.wire import records
from ottla.wire.compression import OutputTooLarge
from ottla.wire.primitives import WireError
from ottla.wire.records import BatchHeader

# What is unpacked at once, and how many records are a step.
_QUICK_PLAIN_BYTES = 1024 * 1024
_RECORDS_OF_A_STEP = 1000


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class LogChanged(OttlaError):
    """The segment was removed or replaced while one of its batches was looked through."""


class BatchScan(NamedTuple):
    """Asks for the record at or after both, the first or the one with the largest timestamp."""

    batch: bytes
    header: BatchHeader
    timestamp: int
    start_offset: int
    wants_largest: bool

    def steps(self) -> Steps[TimedOffset | None]:
        """Raises KafkaError."""
        best: TimedOffset | None = None
        least = self.timestamp
        try:
            try:
                found = records.iter_records(self.batch, _QUICK_PLAIN_BYTES)
            except OutputTooLarge:
                yield Pause.LONG
                found = records.iter_records(self.batch)
            for number, record in enumerate(found, 1):
                if record.timestamp >= least and record.offset >= self.start_offset:
                    epoch = self.header.partition_leader_epoch
                    best = TimedOffset(record.offset, record.timestamp, epoch)
                    if not self.wants_largest:
                        break
                    least = record.timestamp + 1
                if number % _RECORDS_OF_A_STEP == 0:
                    yield Pause.SHORT
        except WireError as error:
            # From before records were looked at, or under ottla.records.validate=header.
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        return best


Search = Generator[BatchScan, TimedOffset | None, TimedOffset | None]


def search_at_or_after(log: Log, timestamp: int) -> Search:
    """The first record with that time or a later one, at or after the log's start; raises
    LogChanged."""
    for segment in tuple(log.segments):
        if segment.size == 0 or segment.max_timestamp < timestamp:
            continue
        found = segment.locate_timestamp(timestamp, log.start_offset)
        while found is not None:
            position, header = found
            record = yield from _first_record(log, segment, position, header, timestamp)
            if record is not None:
                return record
            found = segment.next_with_timestamp(position + header.size, timestamp)
    return None


def search_max_timestamp(log: Log) -> Search:
    """The record with the largest timestamp (KIP-734), None in a log without any; raises
    LogChanged."""
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
    record = yield from _first_at(log, newest, newest.max_timestamp)
    if record is None and newest is parts[0]:
        # It was deleted with DeleteRecords; Kafka names it all the same.
        kept = yield from _largest_kept(log, newest)
        later = max(parts[1:], key=_max_timestamp, default=None)
        if later is not None and (kept is None or later.max_timestamp > kept.timestamp):
            return (yield from _first_at(log, later, later.max_timestamp))
        return kept
    return record


def _max_timestamp(segment: Segment) -> int:
    return segment.max_timestamp


def _first_at(log: Log, segment: Segment, timestamp: int) -> Search:
    found = segment.locate_timestamp(timestamp, log.start_offset)
    if found is None:
        return None
    return (yield from _first_record(log, segment, *found, timestamp))


def _largest_kept(log: Log, segment: Segment) -> Search:
    """The record with the largest timestamp in a segment of which only the end is left."""
    largest: TimedOffset | None = None
    found = segment.locate(log.start_offset)
    while found is not None:
        position, header = found
        least = -1 if largest is None else largest.timestamp + 1
        record = yield from _in_batch(log, segment, position, header, least, wants_largest=True)
        largest = record or largest
        least = -1 if largest is None else largest.timestamp + 1
        found = segment.next_with_timestamp(position + header.size, least)
    return largest


def _first_record(
    log: Log, segment: Segment, position: int, header: BatchHeader, timestamp: int
) -> Search:
    return (yield from _in_batch(log, segment, position, header, timestamp, wants_largest=False))


def _in_batch(
    log: Log,
    segment: Segment,
    position: int,
    header: BatchHeader,
    timestamp: int,
    *,
    wants_largest: bool,
) -> Search:
    start_offset = log.start_offset
    # A batch that compaction went over may have lost its first records, or all.
    if header.is_log_append_time and header.record_count > header.last_offset_delta:
        epoch = header.partition_leader_epoch
        return TimedOffset(max(header.base_offset, start_offset), header.max_timestamp, epoch)
    batch = segment.file().read_at(header.size, position)
    found = yield BatchScan(batch, header, timestamp, start_offset, wants_largest)
    if segment not in log.segments:
        raise LogChanged(f"{log.tp}: the segment from {segment.base_offset} on")
    return found
