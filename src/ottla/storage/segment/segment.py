"""One segment: a `.log` file of batches and what is indexed of it (LogSegment).

The descriptor is opened on first use and given back under pressure (`OpenFiles`); so are the
indexes of a sealed segment, which its files hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.runtime import Disk, File
from ottla.storage.segment import batch_scan
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import LOG_SUFFIX, file_name
from ottla.storage.segment.index import IndexDamaged, OffsetIndex, TimeIndex
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.slices import RecordSlice
from ottla.storage.segment.sparse_indexes import BatchPlace, SparseIndexes
from ottla.storage.segment.transaction_index import TransactionIndex
from ottla.wire.records import LOG_OVERHEAD_BYTES, BatchHeader

EMPTY = memoryview(b"")
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MAX_SEGMENT_BYTES = 0x7FFFFFFF


class Segment:
    """Batches from `base_offset` on: appended, read, found by offset or time, cut at the end.

    Sealed once another one follows; its indexes are in their files then and may leave memory.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_first_timestamp",
        "_indexes",
        "_open_files",
        "_sealed",
        "base_offset",
        "created_ms",
        "cuts",
        "folder",
        "is_unmade",
        "size",
        "transactions",
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
        unmade: bool = False,
    ) -> None:
        """`unmade`: it has no file before its first batch."""
        self._disk = disk
        self._open_files = open_files
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        # Each makes what was promised of the file before void: see `RecordSlice`.
        self.cuts = 0
        self._sealed = sealed
        # No batch has come yet, and so there is no file.
        self.is_unmade = unmade
        self._file: File | None = None
        self._indexes = SparseIndexes(
            disk, folder, base_offset, index_interval_bytes, is_empty=not size
        )
        self.transactions = TransactionIndex(disk, folder, base_offset, is_empty=not size)
        self._first_timestamp: int | None = None

    def path(self, suffix: str) -> Path:
        return self.folder / file_name(self.base_offset, suffix)

    @property
    def sealed(self) -> bool:
        return self._sealed

    @property
    def index_interval_bytes(self) -> int:
        return self._indexes.interval_bytes

    @index_interval_bytes.setter
    def index_interval_bytes(self, interval_bytes: int) -> None:
        self._indexes.interval_bytes = interval_bytes

    def file(self) -> File:
        file = self._file
        if file is None:
            # Never made anew: an append would leave a hole where the records were.
            file = self._disk.open(self.path(LOG_SUFFIX), create=self.is_unmade)
            self._file, self.is_unmade = file, False
        self._open_files.touch(self)
        return file

    def uncache(self, position: int, size: int) -> None:
        """The system need not keep these bytes in memory. Raises OSError."""
        if self._file is not None:
            self._file.uncache(position, size)
            return
        # Closed at once, and not told to `OpenFiles`: nobody reads here any more, the log may be
        # deleted, and an open descriptor would keep what its files take of the disk.
        file = self._disk.open(self.path(LOG_SUFFIX), create=False)
        try:
            file.uncache(position, size)
        finally:
            file.close()

    def release(self) -> None:
        """Closes the descriptor; a sealed segment also drops its indexes (its files have them)."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._sealed and self.size:
            self._indexes.release()
        self.transactions.release()

    def forget(self) -> None:
        """As `release`, for a segment that is not used any more."""
        self._open_files.cold_reads.forget(self)
        self._open_files.forget(self)
        self.release()

    def set_aside(self) -> None:
        """Its files get other names: another segment may have these from now on."""
        self.forget()
        self.cuts += 1

    def move_to(self, folder: Path) -> None:
        """The folder was renamed."""
        self.folder = self._indexes.folder = self.transactions.folder = folder

    def indexes(self) -> SparseIndexes:
        """Ready to be asked for places."""
        indexes = self._indexes
        if not indexes.is_loaded:
            self._open_files.touch(self)
            indexes.load(self.file(), self.size, is_sealed=self._sealed)
        return indexes

    def append(self, parts: Sequence[memoryview], places: Sequence[BatchPlace]) -> None:
        """Writes batches in one go, then indexes them (LogSegment.append, batch by batch)."""
        start = self.size
        indexes = self._indexes
        if not indexes.is_loaded:
            self.indexes()
        # Not at the file's end: an append that failed half way may have left bytes there.
        if len(parts) == 1:
            self.file().write_at(parts[0], start)
            total = len(parts[0])
        else:
            total = self.file().write_parts_at(parts, start)
        indexes.add(places, start, total)
        self.size = start + total
        if self._first_timestamp is None:
            self._first_timestamp = places[0][2]

    def read(
        self,
        position: int,
        limit: int,
        max_bytes: int,
        *,
        min_one_batch: bool,
        sliced_from: int = MAX_SEGMENT_BYTES,
    ) -> memoryview | RecordSlice:
        """Bytes of whole batches but the last, from one's start up to `limit`; nothing instead of
        an incomplete first batch, which `min_one_batch` gives whole. From `sliced_from` bytes on
        they stay in the file for now."""
        available = limit - position
        if available <= 0:
            return EMPTY
        wanted = min(max_bytes, available)
        if wanted < LOG_OVERHEAD_BYTES and not min_one_batch:
            return EMPTY
        sliced = wanted >= sliced_from
        head_bytes = LOG_OVERHEAD_BYTES if sliced else max(wanted, LOG_OVERHEAD_BYTES)
        data = self.records(position, head_bytes).read_at(head_bytes, position)
        first_batch = LOG_OVERHEAD_BYTES + int.from_bytes(data[8:12], "big")
        if first_batch > (wanted if sliced else len(data)) or wanted < LOG_OVERHEAD_BYTES:
            if not min_one_batch:
                return EMPTY
            wanted = min(first_batch, available)
            if wanted < sliced_from:
                return memoryview(self.records(position, wanted).read_at(wanted, position))
            sliced = True
        return RecordSlice(self, position, wanted) if sliced else memoryview(data)

    def records(self, position: int, size: int) -> File:
        """The file, for a read of records that a client or a follower wants."""
        if self._sealed:
            self._open_files.cold_reads.note(self, position, size)
        return self.file()

    def indexes_full(self, index_bytes: int) -> bool:
        """Whether the segment can grow no further for them; a sealed one does not grow anyway."""
        return not self._sealed and self._indexes.is_full(index_bytes)

    @property
    def max_timestamp(self) -> int:
        timestamp = self._indexes.max_timestamp
        if timestamp is None:
            timestamp = self.indexes().max_timestamp
        return -1 if timestamp is None else timestamp

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
        if timestamp >= 0:
            return timestamp
        return self.created_ms if self.is_unmade else self._disk.mtime_ms(self.path(LOG_SUFFIX))

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch whose last offset is at or after `offset`; None behind the end."""
        if not self.size:
            return None
        start = self.indexes().position_before(offset)
        if self._sealed:
            # The scan brings the place into the cache: a read would not see that it was not there.
            self._open_files.cold_reads.note(self, start, 1)
        try:
            return self._scan_for(offset, start)
        except IndexDamaged as damage:
            if not self._indexes.replace(self.file(), self.size, damage, is_sealed=self._sealed):
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
        if not self.size:
            return None
        indexes = self.indexes()
        offset = max(indexes.offset_before_time(timestamp), start_offset)
        start = indexes.position_before(offset)
        if start and self.locate(offset) is not None:
            # The lookup made the indexes again where they did not fit.
            start = self.indexes().position_before(offset)
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
        end = self.base_offset
        if not self.size:
            return end
        start = self.indexes().last_position()
        for _, header in batch_scan.headers(self.file(), start, self.size):
            end = header.base_offset + header.last_offset_delta + 1
        return end

    def truncate(self, size: int, offset: int) -> None:
        """Cuts the file at a batch boundary that lies at `offset`."""
        indexes = self.indexes()
        self.cuts += 1
        self.file().truncate(size)
        self.size = size
        indexes.truncate(size, offset)
        self.transactions.truncate(offset)
        if size == 0:
            self._first_timestamp = None
        indexes.find_max_timestamp(self.file(), size)

    def adopt_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Takes indexes that a scan of the whole file made."""
        self._indexes.adopt(offset_index, time_index)

    def bounds_in_time(self) -> tuple[int, int, int | None]:
        """Largest timestamp, its offset, and the first one where it was asked for before."""
        return self.max_timestamp, self._indexes.max_timestamp_offset, self._first_timestamp

    def adopt_bounds_in_time(self, largest: int, offset: int, first: int | None) -> None:
        """Takes what `bounds_in_time` gave for a file too small to need index entries."""
        self._indexes.adopt_bounds(largest, offset)
        self.transactions.known_empty()
        self._first_timestamp = first
        self._sealed = False

    def seal(self) -> None:
        """No more appends: the indexes go to their files."""
        self.indexes().write()
        self._sealed = True

    def unseal(self) -> None:
        """The segment is the last one (again): its indexes stay in memory and may grow."""
        self.indexes()
        self._sealed = False
