"""When a segment is full and when one may go: plain decisions (LogSegment.shouldRoll,
Log.deleteOldSegments). Compacted topics lose whole segments only where `delete` is in their policy
as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET, Segment
from ottla.topics.configs import LogConfig

if TYPE_CHECKING:
    from ottla.storage.log.log import Log


def should_roll(
    active: Segment,
    settings: LogConfig,
    incoming_bytes: int,
    last_offset: int,
    newest_ms: int,
    now_ms: int,
) -> bool:
    """Whether the incoming batches, up to an offset and a largest timestamp, start a new segment.

    Time counts by the records' own; by the wall clock where they carry none.
    """
    if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if active.size == 0:
        return False
    if active.size + incoming_bytes > settings.segment_bytes:
        return True
    if newest_ms >= 0 and active.first_timestamp >= 0:
        waited_ms = newest_ms - active.first_timestamp
    else:
        waited_ms = now_ms - active.created_ms
    if waited_ms > segment_ms(settings) - jitter_ms(active, settings):
        return True
    return active.indexes_full(settings.segment_index_bytes)


def segment_ms(settings: LogConfig) -> int:
    """A compacted topic rolls early enough for max.compaction.lag.ms: only sealed segments are
    compacted (LogConfig.maxSegmentMs)."""
    if settings.compact:
        return min(settings.segment_ms, settings.max_compaction_lag_ms)
    return settings.segment_ms


def jitter_ms(active: Segment, settings: LogConfig) -> int:
    """Spreads the rolls of many partitions; the same for a segment every time it is asked."""
    if settings.segment_jitter_ms <= 0:
        return 0
    limit = min(settings.segment_jitter_ms, segment_ms(settings))
    if limit <= 0:
        return 0
    return (active.base_offset * 2654435761 + active.created_ms) % limit


def deletable_segments(log: Log, now_ms: int) -> int:
    """How many of the oldest segments may go; may be all of them (the log then rolls first)."""
    count = 0
    if log.settings.delete:
        count = max(_beyond_time(log, now_ms), _beyond_size(log))
    return max(count, _before_start(log))


def _next_base(log: Log, slot: int) -> int:
    parts = log.segments
    return parts[slot + 1].base_offset if slot + 1 < len(parts) else log.end_offset


def _may_go(log: Log, slot: int) -> bool:
    """Never an empty active segment, never what consumers cannot have read yet."""
    is_active = slot == len(log.segments) - 1
    if is_active and log.segments[slot].size == 0:
        return False
    return log.high_watermark >= _next_base(log, slot)


def _beyond_time(log: Log, now_ms: int) -> int:
    limit_ms = log.settings.retention_ms
    if limit_ms < 0:
        return 0
    for slot, segment in enumerate(log.segments):
        if not _may_go(log, slot) or now_ms - segment.largest_timestamp() <= limit_ms:
            return slot
    return len(log.segments)


def _beyond_size(log: Log) -> int:
    limit = log.settings.retention_bytes
    if limit < 0:
        return 0
    surplus = log.size - limit
    for slot, segment in enumerate(log.segments):
        if not _may_go(log, slot) or surplus - segment.size < 0:
            return slot
        surplus -= segment.size
    return len(log.segments)


def _before_start(log: Log) -> int:
    for slot in range(len(log.segments)):
        if slot == len(log.segments) - 1 or _next_base(log, slot) > log.start_offset:
            return slot
    return 0
