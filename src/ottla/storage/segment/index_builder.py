"""Both sparse indexes of a segment out of its batches, in order (LogSegment.recover)."""

from __future__ import annotations

from ottla.storage.segment.index import OffsetIndex, TimeIndex
from ottla.wire.records import BatchHeader


class IndexBuilder:
    """Batches without records, which compaction leaves for producers, have no time of their own:
    Kafka's DumpLogSegments would not find the entry's timestamp in them."""

    __slots__ = (
        "_base",
        "_interval_bytes",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_since",
        "offsets",
        "times",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offsets, self.times = OffsetIndex(), TimeIndex()
        self._base = base_offset
        self._interval_bytes = interval_bytes
        self._since = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset

    def add(self, position: int, header: BatchHeader) -> None:
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self._max_timestamp and header.record_count:
            self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, last_offset
        if self._since > self._interval_bytes:
            self.offsets.append(last_offset - self._base, position)
            self._add_time()
            self._since = 0
        self._since += header.size

    def _add_time(self) -> None:
        self.times.append(self._max_timestamp, self._max_timestamp_offset - self._base)

    def finish(self) -> tuple[OffsetIndex, TimeIndex]:
        """With the time entry that ends a segment."""
        self._add_time()
        return self.offsets, self.times
