"""One segment: a `.log` file of batches and its sparse indexes (LogSegment).

The descriptor is opened on first use and given back under pressure (`OpenFiles`); so are the
indexes of a sealed segment, which its files hold. The active segment keeps its indexes in memory
and writes them when it is sealed or closed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Disk, File
from ottla.storage.segment import batch_scan, transaction_index
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
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
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire.records import LOG_OVERHEAD_BYTES, BatchHeader

logger = logging.getLogger(__name__)
EMPTY = memoryview(b"")
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MAX_SEGMENT_BYTES = 0x7FFFFFFF


# A batch inside an append: where it starts there, its last offset and largest timestamp.
BatchPlace = tuple[int, int, int]


class Segment:
    __slots__ = (
        "_aborted",
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_first_timestamp",
        "_is_scanned",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_open_files",
        "_sealed",
        "_time_index",
        "base_offset",
        "created_ms",
        "folder",
        "index_interval_bytes",
        "size",
    )

    def __init__(
        self,
        disk: Disk,
        open_files: OpenFiles,
        folder: Path,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        created_ms: int,
        sealed: bool,
    ) -> None:
        self._disk = disk
        self._open_files = open_files
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        self._sealed = sealed
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None if size else OffsetIndex()
        self._time_index: TimeIndex | None = None if size else TimeIndex()
        # None = not read yet; every entry is in its file as soon as it is here.
        self._aborted: list[AbortedTransaction] | None = None if size else []
        # Whether indexes that contradicted the log were tried to be made again.
        self._is_scanned = False
        self._bytes_since_entry = 0
        # None = not read yet: the time index's last entry has it.
        self._max_timestamp: int | None = None if size else -1
        self._max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None

    def path(self, suffix: str) -> Path:
        return self.folder / file_name(self.base_offset, suffix)

    @property
    def sealed(self) -> bool:
        return self._sealed

    def file(self) -> File:
        file = self._file
        if file is None:
            # Never made anew: an append would leave a hole where the records were.
            file = self._file = self._disk.open(self.path(LOG_SUFFIX), create=False)
        self._open_files.touch(self)
        return file

    def release(self) -> None:
        """Closes the descriptor; a sealed segment also drops its indexes (its files have them)."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._sealed and self.size:
            self._offset_index = self._time_index = None
        if self._aborted:
            self._aborted = None

    def forget(self) -> None:
        """As `release`, for a segment that is not used any more."""
        self._open_files.forget(self)
        self.release()

    def append(self, parts: Sequence[memoryview], places: Sequence[BatchPlace]) -> None:
        """Writes batches in one go, then indexes them (LogSegment.append, batch by batch)."""
        start = self.size
        offset_index, time_index = self._indexes()
        largest = self.max_timestamp if self._max_timestamp is None else self._max_timestamp
        # Not at the file's end: an append that failed half way may have left bytes there.
        if len(parts) == 1:
            self.file().write_at(parts[0], start)
            total = len(parts[0])
        else:
            total = self.file().write_parts_at(parts, start)
        base = self.base_offset
        since = self._bytes_since_entry
        interval = self.index_interval_bytes
        previous = 0
        for position, last_offset, max_timestamp in places:
            since += position - previous
            previous = position
            if max_timestamp > largest:
                self._max_timestamp = largest = max_timestamp
                self._max_timestamp_offset = last_offset
            if since > interval:
                offset_index.append(last_offset - base, start + position)
                time_index.append(largest, self._max_timestamp_offset - base)
                since = 0
        self._bytes_since_entry = since + total - previous
        self.size = start + total
        if self._first_timestamp is None:
            self._first_timestamp = places[0][2]

    def read(self, position: int, limit: int, max_bytes: int, *, min_one_batch: bool) -> memoryview:
        """Bytes of whole batches but the last, from one's start up to `limit`; nothing instead of
        an incomplete first batch, which `min_one_batch` gives whole."""
        available = limit - position
        if available <= 0:
            return EMPTY
        wanted = min(max_bytes, available)
        if wanted < LOG_OVERHEAD_BYTES and not min_one_batch:
            return EMPTY
        data = self.file().read_at(max(wanted, LOG_OVERHEAD_BYTES), position)
        first_batch = LOG_OVERHEAD_BYTES + int.from_bytes(data[8:12], "big")
        if first_batch > len(data) or wanted < LOG_OVERHEAD_BYTES:
            if not min_one_batch:
                return EMPTY
            data = self.file().read_at(min(first_batch, available), position)
        return memoryview(data)

    def index_entries(self) -> tuple[int, int]:
        """How many entries the offset index and the time index have."""
        offset_index, time_index = self._indexes()
        return len(offset_index), len(time_index)

    def indexes_full(self, index_bytes: int) -> bool:
        """Kafka keeps one slot of the time index free for the entry made on roll."""
        if self._sealed or self._offset_index is None or self._time_index is None:
            return False
        return (
            len(self._offset_index.offsets) >= index_bytes // OFFSET_ENTRY_BYTES
            or len(self._time_index.timestamps) >= index_bytes // TIME_ENTRY_BYTES - 1
        )

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            _, time_index = self._indexes()
            last = time_index.last()
            self._max_timestamp = -1 if last is None else last[0]
            if last is not None:
                self._max_timestamp_offset = self.base_offset + last[1]
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        _ = self.max_timestamp
        return self._max_timestamp_offset

    @property
    def first_timestamp(self) -> int:
        """The first batch's largest timestamp, which time-based rolling counts from; -1 if none."""
        if self._first_timestamp is None and self.size:
            window = batch_scan.LOOKUP_WINDOW_BYTES
            for _, header in batch_scan.headers(self.file(), 0, self.size, window_bytes=window):
                self._first_timestamp = header.max_timestamp
                break
        return -1 if self._first_timestamp is None else self._first_timestamp

    def largest_timestamp(self) -> int:
        """What retention by time looks at: the largest record timestamp, else the file's own."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._disk.mtime_ms(self.path(LOG_SUFFIX))

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch whose last offset is at or after `offset`; None behind the end."""
        offset_index, _ = self._indexes()
        start = offset_index.position_before(max(0, offset - self.base_offset))
        try:
            return self._scan_for(offset, start)
        except IndexDamaged as damage:
            if not self._replace_indexes(damage):
                raise LogDamaged(start, str(damage)) from None
        return self.locate(offset)

    def _scan_for(self, offset: int, start: int) -> tuple[int, BatchHeader] | None:
        """Raises IndexDamaged where no batch for that offset begins at the start."""
        try:
            for position, header in batch_scan.headers(
                self.file(), start, self.size, window_bytes=batch_scan.LOOKUP_WINDOW_BYTES
            ):
                if position == start > 0 and header.base_offset > offset:
                    raise IndexDamaged(f"offset {header.base_offset} is not where it is indexed")
                if header.base_offset + header.last_offset_delta >= offset:
                    return position, header
        except LogDamaged as damage:
            if damage.position == start > 0:
                raise IndexDamaged(str(damage)) from None
            raise
        return None

    def locate_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch with a record at or after `timestamp` and `start_offset`."""
        offset_index, time_index = self._indexes()
        relative = max(time_index.offset_before(timestamp), start_offset - self.base_offset)
        start = offset_index.position_before(max(0, relative))
        if start and self.locate(self.base_offset + relative) is not None:
            # The lookup made the indexes again where they did not fit.
            start = self._indexes()[0].position_before(relative)
        for position, header in batch_scan.headers(self.file(), start, self.size):
            last_offset = header.base_offset + header.last_offset_delta
            if header.max_timestamp >= timestamp and last_offset >= start_offset:
                return position, header
        return None

    def next_with_timestamp(self, position: int, timestamp: int) -> tuple[int, BatchHeader] | None:
        """As `locate_timestamp`, from a batch boundary on."""
        for place, header in batch_scan.headers(self.file(), position, self.size):
            if header.max_timestamp >= timestamp:
                return place, header
        return None

    def next_offset(self) -> int:
        """The offset after the last batch."""
        offset_index, _ = self._indexes()
        end = self.base_offset
        for _, header in batch_scan.headers(self.file(), offset_index.last_position(), self.size):
            end = header.base_offset + header.last_offset_delta + 1
        return end

    def truncate(self, size: int, offset: int) -> None:
        """Cuts the file at a batch boundary that lies at `offset`."""
        offset_index, time_index = self._indexes()
        self.file().truncate(size)
        self.size = size
        offset_index.truncate_to_position(size)
        time_index.truncate_to_offset(offset - self.base_offset)
        self._bytes_since_entry = 0
        kept = [entry for entry in self.aborted() if entry.last_offset < offset]
        if len(kept) < len(self.aborted()):
            self.set_aborted(kept)
        if size == 0:
            self._first_timestamp = None
        last = time_index.last()
        self._max_timestamp = -1 if last is None else last[0]
        self._max_timestamp_offset = self.base_offset + (0 if last is None else last[1])
        for _, header in batch_scan.headers(self.file(), offset_index.last_position(), size):
            if header.max_timestamp > self._max_timestamp and header.record_count:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.base_offset + header.last_offset_delta

    def adopt_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Takes indexes that a scan of the whole file made; their last time entry is its end."""
        self._offset_index, self._time_index = offset_index, time_index
        self._max_timestamp = None

    def bounds_in_time(self) -> tuple[int, int, int | None]:
        """Largest timestamp, its offset, and the first one where it was asked for before."""
        return self.max_timestamp, self._max_timestamp_offset, self._first_timestamp

    def adopt_bounds_in_time(self, largest: int, offset: int, first: int | None) -> None:
        """Takes what `bounds_in_time` gave for a file too small to need index entries."""
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self._aborted = []
        self._max_timestamp, self._max_timestamp_offset = largest, offset
        self._first_timestamp = first
        self._sealed = False

    def aborted(self) -> list[AbortedTransaction]:
        """Transactions whose abort marker is in this segment, by marker; not to be changed."""
        if self._aborted is None:
            path = self.path(TXN_INDEX_SUFFIX)
            data = self._disk.read_bytes(path) if self._disk.exists(path) else b""
            try:
                self._aborted = transaction_index.decode(data)
            except IndexDamaged as damage:
                # Recovery rebuilds it at the next start; until then nobody may guess.
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{path}: {damage}") from None
        return self._aborted

    def add_aborted(self, entry: AbortedTransaction) -> Path:
        """Returns the file that this was written to; the log's next flush syncs it."""
        entries = self.aborted()
        path = self.path(TXN_INDEX_SUFFIX)
        file = self._disk.open(path)
        try:
            # Not at the file's end: a failed write may have left bytes there.
            file.write_at(
                transaction_index.encode((entry,)), len(entries) * transaction_index.ENTRY_BYTES
            )
        finally:
            file.close()
        entries.append(entry)
        return path

    def set_aborted(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replaces all entries (truncation, recovery); none leave no file."""
        path = self.path(TXN_INDEX_SUFFIX)
        if entries:
            file = self._disk.open(path)
            try:
                file.truncate(0)
                file.append(transaction_index.encode(entries))
                file.sync()
            finally:
                file.close()
        else:
            self._disk.remove(path)
        self._aborted = list(entries)

    def batch_start(self, position: int) -> int:
        """Where a batch starts at or somewhat before a place in the file."""
        offset_index, _ = self._indexes()
        return offset_index.position_at_or_before(position)

    def offset_after(self, position: int) -> int | None:
        """An offset that no batch before the position reaches; None where the index ends before
        (OffsetIndex.fetchUpperBoundOffset)."""
        offset_index, _ = self._indexes()
        relative = offset_index.offset_from(position)
        return None if relative is None else self.base_offset + relative

    def _indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        if self._offset_index is None or self._time_index is None:
            self._open_files.touch(self)
            try:
                self._offset_index = OffsetIndex.decode(
                    self._disk.read_bytes(self.path(INDEX_SUFFIX)), self.size
                )
                self._time_index = TimeIndex.decode(
                    self._disk.read_bytes(self.path(TIME_INDEX_SUFFIX))
                )
                self._check(self._offset_index, self._time_index)
            except (FileNotFoundError, IndexDamaged):
                self._offset_index, self._time_index, _ = rebuild_indexes(self)
        return self._offset_index, self._time_index

    def _check(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        try:
            check_indexes(
                self.file(), self.base_offset, self.size, self.index_interval_bytes, offsets, times
            )
        except IndexDamaged as damage:
            self._replace_indexes(damage)

    def _replace_indexes(self, damage: IndexDamaged) -> bool:
        """Indexes from the log in the place of those that contradict it, also on disk where they
        belong. Once only, and not where the log itself is damaged: reads behind that place need
        what the files have."""
        if self._is_scanned:
            return False
        self._is_scanned = True
        offset_index, time_index, is_whole = rebuild_indexes(self)
        if is_whole:
            logger.warning("%s: its indexes are made again: %s", self.path(LOG_SUFFIX), damage)
            self.adopt_indexes(offset_index, time_index)
            if self._sealed:
                self.write_indexes()
        return is_whole

    def seal(self) -> None:
        """No more appends: the indexes go to their files."""
        self.write_indexes()
        self._sealed = True

    def unseal(self) -> None:
        """The segment is the last one (again): its indexes stay in memory and may grow."""
        self._indexes()
        self._sealed = False

    def write_indexes(self) -> None:
        """Adds the time entry for the end and writes both files, trimmed as Kafka leaves them."""
        offset_index, time_index = self._indexes()
        time_index.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
        contents = ((INDEX_SUFFIX, offset_index.encode()), (TIME_INDEX_SUFFIX, time_index.encode()))
        for suffix, data in contents:
            file = self._disk.open(self.path(suffix))
            try:
                # Not emptied first: some file systems then write a file out as it is closed.
                file.write_at(data, 0)
                if file.size() > len(data):
                    file.truncate(len(data))
            finally:
                file.close()


def rebuild_indexes(segment: Segment) -> tuple[OffsetIndex, TimeIndex, bool]:
    """Both indexes from the log itself (LogSegment.recover without the cut), and whether it could
    be read to its end."""
    builder = IndexBuilder(segment.base_offset, segment.index_interval_bytes)
    is_whole = True
    try:
        for position, header in batch_scan.headers(segment.file(), 0, segment.size):
            builder.add(position, header)
    except LogDamaged:
        # Reads up to the damage still work; a follower or an operator repairs the rest.
        is_whole = False
    return *builder.finish(), is_whole
