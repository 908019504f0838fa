"""Both sparse indexes of one segment, in memory and in their files (LogSegment's lazy indexes).

The active segment keeps them in memory and writes them when it is sealed or closed. Those of a
sealed segment are given back under pressure and read again; what the files lack, or have wrong, is
made from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ottla.errors import InvariantViolated
from ottla.runtime import Disk, File
from ottla.storage.segment import batch_scan
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.segment.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    IndexDamaged,
    OffsetIndex,
    TimeIndex,
)
from ottla.storage.segment.index_builder import IndexBuilder
from ottla.storage.segment.index_checks import check_indexes

logger = logging.getLogger(__name__)

# A batch inside an append: where it starts there, its last offset and largest timestamp.
BatchPlace = tuple[int, int, int]


class SparseIndexes:
    """Places in the file by offset and by time, and the largest timestamp of the segment.

    Whoever asks for places sees to it that they are loaded (`Segment.indexes`); the largest
    timestamp stays known after a release.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_is_scanned",
        "_tables",
        "base_offset",
        "folder",
        "interval_bytes",
        "is_loaded",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(
        self, disk: Disk, folder: Path, base_offset: int, interval_bytes: int, *, is_empty: bool
    ) -> None:
        self._disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self._tables = (OffsetIndex(), TimeIndex()) if is_empty else None
        self.is_loaded = is_empty
        # Whether they were made again once because they contradicted the log.
        self._is_scanned = False
        self._bytes_since_entry = 0
        # None = not read yet: the time index's last entry has it.
        self.max_timestamp: int | None = -1 if is_empty else None
        self.max_timestamp_offset = base_offset

    # --- from files and back ----------------------------------------------------------------

    def load(self, log: File, size: int, *, is_sealed: bool) -> None:
        """From the index files, or from the log where these do not fit it."""
        try:
            offsets = OffsetIndex.decode(self._disk.read_bytes(self._path(INDEX_SUFFIX)), size)
            times = TimeIndex.decode(self._disk.read_bytes(self._path(TIME_INDEX_SUFFIX)))
            self._use(offsets, times)
            try:
                check_indexes(log, self.base_offset, size, self.interval_bytes, offsets, times)
            except IndexDamaged as damage:
                self.replace(log, size, damage, is_sealed=is_sealed)
        except (FileNotFoundError, IndexDamaged):
            offsets, times, _ = rebuild(log, self.base_offset, size, self.interval_bytes)
            self._use(offsets, times)

    def replace(self, log: File, size: int, damage: IndexDamaged, *, is_sealed: bool) -> bool:
        """Indexes from the log in the place of those that contradict it, also on disk where they
        belong. Once only, and not where the log itself is damaged: reads behind that place need
        what the files have."""
        if self._is_scanned:
            return False
        self._is_scanned = True
        offsets, times, is_whole = rebuild(log, self.base_offset, size, self.interval_bytes)
        if is_whole:
            logger.warning("%s: its indexes are made again: %s", self._path(LOG_SUFFIX), damage)
            self.adopt(offsets, times)
            if is_sealed:
                self.write()
        return is_whole

    def adopt(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Takes indexes that a scan of the whole file made; their last time entry is its end."""
        self.max_timestamp = None
        self._use(offsets, times)

    def adopt_bounds(self, max_timestamp: int, offset: int) -> None:
        """Takes what is known of a file too small to need entries."""
        self._tables, self.is_loaded = (OffsetIndex(), TimeIndex()), True
        self.max_timestamp, self.max_timestamp_offset = max_timestamp, offset

    def _use(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._tables, self.is_loaded = (offsets, times), True
        if self.max_timestamp is None:
            last = times.last()
            self.max_timestamp = -1 if last is None else last[0]
            if last is not None:
                self.max_timestamp_offset = self.base_offset + last[1]

    def write(self) -> None:
        """Adds the time entry for the end and writes both files, trimmed as Kafka leaves them."""
        offsets, times = self._tables or self._not_loaded()
        if self.max_timestamp is not None:
            times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        for suffix, data in ((INDEX_SUFFIX, offsets.encode()), (TIME_INDEX_SUFFIX, times.encode())):
            file = self._disk.open(self._path(suffix))
            try:
                # Not emptied first: some file systems then write a file out as it is closed.
                file.write_at(data, 0)
                if file.size() > len(data):
                    file.truncate(len(data))
            finally:
                file.close()

    def release(self) -> None:
        """Gives back the memory; the files have it all."""
        self._tables, self.is_loaded = None, False

    # --- growing and shrinking --------------------------------------------------------------

    def add(self, places: Sequence[BatchPlace], start: int, size: int) -> None:
        """Batches that were written at `start`, together of that size (LogSegment.append)."""
        offset_index, time_index = self._tables or self._not_loaded()
        base = self.base_offset
        since = self._bytes_since_entry
        interval = self.interval_bytes
        largest = -1 if self.max_timestamp is None else self.max_timestamp
        previous = 0
        for position, last_offset, max_timestamp in places:
            since += position - previous
            previous = position
            if max_timestamp > largest:
                self.max_timestamp = largest = max_timestamp
                self.max_timestamp_offset = last_offset
            if since > interval:
                offset_index.append(last_offset - base, start + position)
                time_index.append(largest, self.max_timestamp_offset - base)
                since = 0
        self._bytes_since_entry = since + size - previous

    def truncate(self, size: int, offset: int) -> None:
        """The file was cut at a batch boundary that lies at `offset`."""
        offset_index, time_index = self._tables or self._not_loaded()
        offset_index.truncate_to_position(size)
        time_index.truncate_to_offset(offset - self.base_offset)
        self._bytes_since_entry = 0

    def find_max_timestamp(self, log: File, size: int) -> None:
        """Anew after a truncation: by the last entries and the batches behind them."""
        offset_index, time_index = self._tables or self._not_loaded()
        largest, relative_offset = time_index.last() or (-1, 0)
        self.max_timestamp = largest
        self.max_timestamp_offset = self.base_offset + relative_offset
        for _, header in batch_scan.headers(log, offset_index.last_position(), size):
            if header.max_timestamp > largest and header.record_count:
                self.max_timestamp = largest = header.max_timestamp
                self.max_timestamp_offset = header.base_offset + header.last_offset_delta

    def is_full(self, index_bytes: int) -> bool:
        """Kafka keeps one slot of the time index free for the entry made on roll."""
        if self._tables is None:
            return False
        offset_index, time_index = self._tables
        return (
            len(offset_index.offsets) >= index_bytes // OFFSET_ENTRY_BYTES
            or len(time_index.timestamps) >= index_bytes // TIME_ENTRY_BYTES - 1
        )

    def entry_counts(self) -> tuple[int, int]:
        """Of the offset index and the time index."""
        offset_index, time_index = self._tables or self._not_loaded()
        return len(offset_index), len(time_index)

    # --- places -----------------------------------------------------------------------------

    def position_before(self, offset: int) -> int:
        """Where to start looking for an offset."""
        offset_index, _ = self._tables or self._not_loaded()
        return offset_index.position_before(max(0, offset - self.base_offset))

    def offset_before_time(self, timestamp: int) -> int:
        """From where to look for the first record at or after a time."""
        _, time_index = self._tables or self._not_loaded()
        return self.base_offset + time_index.offset_before(timestamp)

    def last_position(self) -> int:
        """The last batch that has an entry."""
        offset_index, _ = self._tables or self._not_loaded()
        return offset_index.last_position()

    def batch_start(self, position: int) -> int:
        """Where a batch starts at or somewhat before a place in the file."""
        offset_index, _ = self._tables or self._not_loaded()
        return offset_index.position_at_or_before(position)

    def offset_after(self, position: int) -> int | None:
        """An offset that no batch before the position reaches; None where the index ends before
        (OffsetIndex.fetchUpperBoundOffset)."""
        offset_index, _ = self._tables or self._not_loaded()
        relative = offset_index.offset_from(position)
        return None if relative is None else self.base_offset + relative

    def _path(self, suffix: str) -> Path:
        return self.folder / file_name(self.base_offset, suffix)

    def _not_loaded(self) -> NoReturn:
        raise InvariantViolated(f"{self._path(INDEX_SUFFIX)} is asked for a place but not loaded")


def rebuild(
    log: File, base_offset: int, size: int, interval_bytes: int
) -> tuple[OffsetIndex, TimeIndex, bool]:
    """Both indexes from the log itself (LogSegment.recover without the cut), and whether it could
    be read to its end."""
    builder = IndexBuilder(base_offset, interval_bytes)
    is_whole = True
    try:
        for position, header in batch_scan.headers(log, 0, size):
            builder.add(position, header)
    except LogDamaged:
        # Reads up to the damage still work; a follower or an operator repairs the rest.
        is_whole = False
    return *builder.finish(), is_whole
