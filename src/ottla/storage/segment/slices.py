"""Records of a segment that are read when they are needed, not before (FileRecords.slice)."""

from __future__ import annotations

from typing import Protocol

from ottla.runtime import File


class SliceGone(OSError):
    """The bytes are no longer what they were: the segment was cut, replaced or deleted."""


class SlicedFile(Protocol):
    """A segment, as its slices see it."""

    # How many times it was cut, or set aside.
    cuts: int

    def records(self, position: int, size: int) -> File:
        """The file, for a read of these bytes. Raises OSError."""


class RecordSlice:
    """Whole batches but the last, as `Segment.read` gives them, still in the file.

    It holds no descriptor and no memory, however long an answer waits for its peer. Appends do not
    touch what it is about; after a truncation, a compaction or a deletion it cannot be read.
    """

    __slots__ = ("_cuts", "_position", "_segment", "_size")

    def __init__(self, segment: SlicedFile, position: int, size: int) -> None:
        self._segment = segment
        self._cuts = segment.cuts
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def read(self, start: int, size: int) -> bytes:
        """Bytes from `start` on, `size` of them or all that are left. Raises OSError."""
        segment = self._unchanged()
        wanted = min(size, self._size - start)
        position = self._position + start
        data = segment.records(position, wanted).read_at(wanted, position)
        if len(data) != wanted:
            raise SliceGone(f"{len(data)} of {wanted} bytes are in the file")
        return data

    def send(self, socket_fd: int, start: int, size: int) -> int:
        """As `read`, from the page cache into a socket: as many bytes as it takes. Raises OSError,
        BlockingIOError where it takes none."""
        wanted = min(size, self._size - start)
        position = self._position + start
        return self._unchanged().records(position, wanted).send_at(socket_fd, wanted, position)

    def _unchanged(self) -> SlicedFile:
        if self._segment.cuts != self._cuts:
            raise SliceGone("the records changed before they were sent")
        return self._segment
