"""Which of the oldest segments may go: plain decisions (Log.deleteOldSegments). Compacted topics
lose whole segments only where `delete` is in their policy as well."""

from __future__ import annotations

from ottla.storage.log.log import Log


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
