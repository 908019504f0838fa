"""The segments of one log in order, and where an offset lies in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from ottla.errors import InvariantViolated
from ottla.runtime import Runtime
from ottla.storage.segment import transaction_index
from ottla.storage.segment.file_names import LOG_SUFFIX
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.renamed_files import complete_swap, set_aside
from ottla.storage.segment.segment import EMPTY, MAX_SEGMENT_BYTES, Segment
from ottla.storage.segment.slices import RecordSlice
from ottla.storage.segment.transaction_index import AbortedTransaction

# Positions of the newest batch boundaries: fetches at the end of a log need no index lookup.
_RECENT_POSITIONS = 32


class Segments(Sequence[Segment]):
    """Oldest first; the last one is active.

    An end of None in a read means all there is: no place has to be looked up for that. Files that
    leave the log are renamed at once and returned, to be removed later.
    """

    __slots__ = ("_bases", "_folder", "_open_files", "_parts", "_recent", "_runtime")

    def __init__(self, runtime: Runtime, open_files: OpenFiles, folder: Path) -> None:
        self._runtime = runtime
        self._open_files = open_files
        self._folder = folder
        self._parts: list[Segment] = []
        self._bases: list[int] = []
        self._recent: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, slot: int) -> Segment: ...
    @overload
    def __getitem__(self, slot: slice) -> list[Segment]: ...
    def __getitem__(self, slot: int | slice) -> Segment | list[Segment]:
        return self._parts[slot]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._parts)

    @property
    def active(self) -> Segment:
        return self._parts[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._parts)

    # --- which segments ---------------------------------------------------------------------

    def opened(
        self,
        base_offset: int,
        size: int,
        *,
        index_interval_bytes: int,
        created_ms: int,
        sealed: bool = True,
        unmade: bool = False,
    ) -> Segment:
        """One whose files are in the folder, or will be; not in the log yet."""
        return Segment(
            self._runtime.disk,
            self._open_files,
            self._folder,
            base_offset,
            size=size,
            index_interval_bytes=index_interval_bytes,
            created_ms=created_ms,
            sealed=sealed,
            unmade=unmade,
        )

    def add(self, segment: Segment) -> None:
        self._parts.append(segment)
        self._bases.append(segment.base_offset)

    def start(self, base_offset: int, index_interval_bytes: int) -> Segment:
        """A new, empty segment at the end."""
        self._recent.clear()
        segment = self.opened(
            base_offset,
            0,
            index_interval_bytes=index_interval_bytes,
            created_ms=self._runtime.clock.now_ms(),
            sealed=False,
        )
        # Not through the segment: a partition without traffic holds no descriptor.
        self._runtime.disk.open(segment.path(LOG_SUFFIX)).close()
        self.add(segment)
        return segment

    def start_unmade(self, index_interval_bytes: int, created_ms: int) -> None:
        """The first one, at offset 0, which gets its file with its first batch. Only there a folder
        without a file says where the log begins."""
        self.add(
            self.opened(
                0,
                0,
                index_interval_bytes=index_interval_bytes,
                created_ms=created_ms,
                sealed=False,
                unmade=True,
            )
        )

    def drop(self, start: int, stop: int) -> list[Path]:
        removed: list[Path] = []
        # What a kill leaves of them joins what stays: no hole between.
        step = -1 if stop == len(self._parts) else 1
        for segment in self._parts[start:stop][::step]:
            removed += set_aside(self._runtime.disk, segment)
        del self._parts[start:stop]
        del self._bases[start:stop]
        return removed

    def holds(self, parts: Sequence[Segment]) -> bool:
        """Whether these very segments are in the log, side by side."""
        slot = bisect_right(self._bases, parts[0].base_offset) - 1
        return self._parts[slot : slot + len(parts)] == list(parts)

    def replace(self, parts: Sequence[Segment], compacted: Segment) -> list[Path]:
        """Puts `compacted`, whose files end in `.swap`, in the place of sealed segments
        (Log.replaceSegments). The first one's snapshot stays: its offset is a base still."""
        if not self.holds(parts) or parts[-1] is self._parts[-1]:
            raise InvariantViolated(f"{self._folder}: the segments to be replaced are not there")
        removed = set_aside(self._runtime.disk, parts[0], keep_snapshot=True)
        for segment in parts[1:]:
            removed += set_aside(self._runtime.disk, segment)
        complete_swap(self._runtime.disk, compacted)
        slot = self._parts.index(parts[0])
        self._parts[slot : slot + len(parts)] = [compacted]
        self._bases[slot : slot + len(parts)] = [compacted.base_offset]
        return removed

    def count_up_to(self, offset: int) -> int:
        """How many segments begin at the offset or before."""
        return bisect_right(self._bases, offset)

    def is_one(self, offset: int, other: int) -> bool:
        """Whether both offsets lie in one segment."""
        return bisect_right(self._bases, offset) == bisect_right(self._bases, other)

    def truncate_active(self, offset: int) -> int:
        """Cuts the last segment before the batch that holds the offset; where it ends then."""
        self._recent.clear()
        active = self._parts[-1]
        active.unseal()
        found = active.locate(offset)
        if found is None:
            return offset
        position, header = found
        end = min(offset, header.base_offset)
        active.truncate(position, end)
        return end

    def move_to(self, folder: Path) -> None:
        """The folder was renamed."""
        self._folder = folder
        for segment in self._parts:
            segment.move_to(folder)

    def release(self) -> None:
        """Gives back all descriptors."""
        for segment in self._parts:
            segment.forget()

    # --- where offsets are ------------------------------------------------------------------

    def grown_to(self, end_offset: int, position: int) -> None:
        """The active segment got batches up to an offset and ends at `position`."""
        recent = self._recent
        recent[end_offset] = position
        if len(recent) > _RECENT_POSITIONS:
            del recent[next(iter(recent))]

    def read(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int | None,
        *,
        min_one_batch: bool,
        sliced_from: int = MAX_SEGMENT_BYTES,
    ) -> memoryview | RecordSlice:
        """Bytes from the batch that holds `offset` on, below `end_offset`; see `Segment.read`."""
        slot = max(0, bisect_right(self._bases, offset) - 1)
        while slot < len(self._parts):
            segment = self._parts[slot]
            position = self._position_of(segment, offset)
            if position is not None:
                limit = segment.size if end_offset is None else self._limit(slot, end_offset)
                return segment.read(
                    position,
                    limit,
                    max_bytes,
                    min_one_batch=min_one_batch,
                    sliced_from=sliced_from,
                )
            slot += 1
        return EMPTY

    def bytes_between(self, offset: int, end_offset: int, *, is_to_end: bool) -> int:
        """How many bytes a fetch from `offset` waits on; no end of them if it is on an older
        segment (such a fetch never waits). `is_to_end` where nothing is behind the end offset."""
        slot = max(0, bisect_right(self._bases, offset) - 1)
        segment = self._parts[slot]
        start = self._position_of(segment, offset)
        if start is None or not self.is_one(offset, end_offset):
            return MAX_SEGMENT_BYTES
        limit = segment.size if is_to_end else self._limit(slot, end_offset)
        return max(0, limit - start)

    def aborted_in(self, offset: int, size: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that a reader must know to filter `size` bytes read at `offset` of
        a log up to `end_offset` (Log.addAbortedTransactions); a few too many do no harm."""
        slot = max(0, bisect_right(self._bases, offset) - 1)
        found: list[AbortedTransaction] = []
        if not any(segment.transactions.aborted() for segment in self._parts[slot:]):
            return found
        upper_bound = end_offset
        for number in range(slot, len(self._parts)):
            segment = self._parts[number]
            position = self._position_of(segment, offset)
            if position is None:
                continue
            bound = segment.indexes().offset_after(position + size)
            if bound is not None:
                upper_bound = bound
            elif number + 1 < len(self._bases):
                upper_bound = self._bases[number + 1]
            break
        for segment in self._parts[slot:]:
            aborted = segment.transactions.aborted()
            if transaction_index.collect(aborted, offset, upper_bound, found):
                break
        return found

    def _position_of(self, segment: Segment, offset: int) -> int | None:
        if segment is self._parts[-1]:
            position = self._recent.get(offset)
            if position is not None:
                return position if position < segment.size else None
        found = segment.locate(offset)
        return None if found is None else found[0]

    def _limit(self, slot: int, end_offset: int) -> int:
        """The file position of `end_offset`, or the segment's end where it lies behind."""
        segment = self._parts[slot]
        if slot + 1 < len(self._bases) and self._bases[slot + 1] <= end_offset:
            return segment.size
        position = self._position_of(segment, end_offset)
        return segment.size if position is None else position
