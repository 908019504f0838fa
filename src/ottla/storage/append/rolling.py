"""When incoming batches start a new segment: plain decisions (LogSegment.shouldRoll)."""

from __future__ import annotations

from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET, Segment
from ottla.topics.configs import LogConfig


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
    limit_ms = settings.segment_ms
    if settings.compact:
        # Early enough for max.compaction.lag.ms: only sealed segments are compacted
        # (LogConfig.maxSegmentMs).
        limit_ms = min(limit_ms, settings.max_compaction_lag_ms)
    if settings.segment_jitter_ms > 0:
        limit_ms -= _jitter_ms(active, min(settings.segment_jitter_ms, limit_ms))
    if waited_ms > limit_ms:
        return True
    return active.indexes_full(settings.segment_index_bytes)


def _jitter_ms(active: Segment, limit_ms: int) -> int:
    """Spreads the rolls of many partitions; the same for a segment every time it is asked."""
    if limit_ms <= 0:
        return 0
    return (active.base_offset * 2654435761 + active.created_ms) % limit_ms


# Bytes, the last offset, the newest time.
Room = tuple[int, int, float]


def room_before_roll(active: Segment, settings: LogConfig) -> Room | None:
    """What can be appended without asking `should_roll`, which knows the exact limits; None: every
    batch has to ask."""
    newest_ms = float("inf")
    if active.size:
        first_ms = active.first_timestamp
        if first_ms < 0:
            # Without a time in the segment the wall clock decides.
            return None
        newest_ms = first_ms + settings.segment_ms - settings.segment_jitter_ms
    if active.indexes_full(settings.segment_index_bytes):
        return None
    return settings.segment_bytes - active.size, active.base_offset + MAX_RELATIVE_OFFSET, newest_ms
