"""What to compact: plain decisions (LogCleanerManager, Cleaner.groupSegmentsBySize)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.storage.log.log import Log
from ottla.storage.segment.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET, MAX_SEGMENT_BYTES, Segment


class DirtyLog(NamedTuple):
    """A log with something to compact: [first_dirty, first_uncleanable) by segment bases."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        """Dirty enough, or holding records that are older than max.compaction.lag.ms."""
        if self.is_overdue and self.dirty_bytes:
            return True
        return self.ratio > self.log.settings.min_cleanable_dirty_ratio


def first_dirty_offset(log: Log) -> int:
    """Where the last pass ended; from the start again if that place is not in the log."""
    checkpoint = log.cleaned_offset
    if log.start_offset <= checkpoint <= log.end_offset:
        return checkpoint
    return log.start_offset


def examine(log: Log, now_ms: int) -> DirtyLog:
    """LogCleanerManager.cleanableOffsets, calculateCleanableBytes, maxCompactionDelay. For logs
    with sealed segments."""
    first_dirty = first_dirty_offset(log)
    sealed = log.segments[:-1]
    # The last batch of a log stays, so that a follower can get to the log's end.
    newest = log.active if log.active.size else sealed[-1]
    limit = min(log.last_stable_offset, newest.base_offset)
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms > 0:
        limit = min(limit, _lag_limit(log, first_dirty, now_ms - lag_ms))
    limit = max(first_dirty, limit)
    # Whole segments only: the one that holds the limit stays as it is.
    first_uncleanable = max(
        (segment.base_offset for segment in log.segments if segment.base_offset <= limit),
        default=log.active.base_offset,
    )
    clean_bytes = 0
    dirty: list[Segment] = []
    for segment, following in zip(sealed, log.segments[1:], strict=True):
        is_cleanable = segment.base_offset < first_uncleanable
        if is_cleanable and following.base_offset > first_dirty:
            dirty.append(segment)
        elif segment.base_offset < first_dirty:
            clean_bytes += segment.size
    dirty_bytes = sum(segment.size for segment in dirty)
    is_overdue = _is_overdue(log, dirty, now_ms)
    return DirtyLog(log, first_dirty, first_uncleanable, clean_bytes, dirty_bytes, is_overdue)


def _lag_limit(log: Log, first_dirty: int, newest_allowed_ms: int) -> int:
    """The first dirty segment that holds a record too young to be compacted."""
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > first_dirty and segment.largest_timestamp() > newest_allowed_ms:
            return segment.base_offset
    return log.active.base_offset


def _is_overdue(log: Log, dirty: Iterable[Segment], now_ms: int) -> bool:
    oldest_allowed = now_ms - log.settings.max_compaction_lag_ms
    return any(0 < segment.first_timestamp < oldest_allowed for segment in dirty)


def filthiest(candidates: Iterable[DirtyLog]) -> DirtyLog | None:
    """The log with the largest share of dirt among those that are worth a pass."""
    worthy = [found for found in candidates if found.is_worth_it]
    return max(worthy, key=lambda found: found.ratio, default=None)


def group_segments(
    log: Log, parts: Sequence[Segment], first_uncleanable: int
) -> list[list[Segment]]:
    """Neighbours that become one segment: what they hold now fits segment.bytes, the indexes and
    the offsets that an index can name."""
    max_bytes = min(log.settings.segment_bytes, MAX_SEGMENT_BYTES)
    max_index_bytes = log.settings.segment_index_bytes
    groups: list[list[Segment]] = []
    size = offset_bytes = time_bytes = 0
    for number, segment in enumerate(parts):
        offset_entries, time_entries = segment.indexes().entry_counts()
        size += segment.size
        offset_bytes += offset_entries * OFFSET_ENTRY_BYTES
        time_bytes += time_entries * TIME_ENTRY_BYTES
        is_last = number + 1 == len(parts)
        last_offset = (first_uncleanable if is_last else parts[number + 1].base_offset) - 1
        if (
            groups
            and size <= max_bytes
            and max(offset_bytes, time_bytes) <= max_index_bytes
            and last_offset - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
            offset_bytes = offset_entries * OFFSET_ENTRY_BYTES
            time_bytes = time_entries * TIME_ENTRY_BYTES
    return groups
