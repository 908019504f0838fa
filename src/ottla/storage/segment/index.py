"""Sparse indexes of a segment in memory, and their `.index` / `.timeindex` file forms.

Kafka maps preallocated files (OffsetIndex, TimeIndex). Here the entries live in arrays and are
written whole when a segment is sealed or closed: the files then look like Kafka's trimmed ones.
After a crash they are rebuilt from the log, as Kafka does.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
_TIME_ENTRY = struct.Struct(">qi")
_SWAP = sys.byteorder == "little"


class IndexDamaged(Exception):
    """An index file that cannot be what a broker wrote; the segment's indexes are rebuilt."""


class OffsetIndex:
    """(offset relative to the segment's base, file position), both increasing."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        # Not to be changed from outside.
        self.offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        if not self.offsets or relative_offset > self.offsets[-1]:
            self.offsets.append(relative_offset)
            self.positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Where to start looking for the offset: the last indexed batch that ends at or before."""
        slot = bisect_right(self.offsets, relative_offset)
        return self.positions[slot - 1] if slot else 0

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry at the position or behind it."""
        slot = bisect_left(self.positions, position)
        return self.offsets[slot] if slot < len(self.offsets) else None

    def position_at_or_before(self, position: int) -> int:
        """The last indexed batch that does not start behind a place in the file."""
        slot = bisect_right(self.positions, position)
        return self.positions[slot - 1] if slot else 0

    def last_position(self) -> int:
        return self.positions[-1] if self.positions else 0

    def truncate_to_position(self, size: int) -> None:
        """Forgets the entries of batches that start at or after `size`."""
        keep = len(self.positions)
        while keep and self.positions[keep - 1] >= size:
            keep -= 1
        del self.offsets[keep:]
        del self.positions[keep:]

    def encode(self) -> bytes:
        entries = array("i", bytes(len(self.offsets) * OFFSET_ENTRY_BYTES))
        entries[0::2] = self.offsets
        entries[1::2] = self.positions
        if _SWAP:
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, data: bytes, log_bytes: int) -> OffsetIndex:
        """Reads a file; zeros after the last entry (a preallocated file) are left out."""
        if len(data) % OFFSET_ENTRY_BYTES:
            raise IndexDamaged(f"{len(data)} bytes are not a multiple of {OFFSET_ENTRY_BYTES}")
        entries = array("i")
        entries.frombytes(data)
        if _SWAP:
            entries.byteswap()
        index = cls()
        offsets, positions = entries[0::2], entries[1::2]
        used = len(offsets)
        while used and offsets[used - 1] == 0 and positions[used - 1] == 0:
            used -= 1
        index.offsets, index.positions = offsets[:used], positions[:used]
        if used and not (0 <= positions[used - 1] < max(log_bytes, 1)):
            raise IndexDamaged(f"last position {positions[used - 1]} is outside the log")
        return index


class TimeIndex:
    """(timestamp, offset relative to the base): the largest timestamp up to that offset."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Kafka's TimeIndex.maybeAppend: only a larger timestamp makes an entry; -1 never does."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """Relative offset from where to look for the first record at or after `timestamp`."""
        slot = bisect_right(self.timestamps, timestamp)
        return self.offsets[slot - 1] if slot else 0

    def last(self) -> tuple[int, int] | None:
        return (self.timestamps[-1], self.offsets[-1]) if self.timestamps else None

    def truncate_to_offset(self, relative_offset: int) -> None:
        """Forgets entries at or after the offset."""
        keep = len(self.offsets)
        while keep and self.offsets[keep - 1] >= relative_offset:
            keep -= 1
        del self.timestamps[keep:]
        del self.offsets[keep:]

    def encode(self) -> bytes:
        pack = _TIME_ENTRY.pack
        pairs = zip(self.timestamps, self.offsets, strict=True)
        return b"".join([pack(timestamp, offset) for timestamp, offset in pairs])

    @classmethod
    def decode(cls, data: bytes) -> TimeIndex:
        if len(data) % TIME_ENTRY_BYTES:
            raise IndexDamaged(f"{len(data)} bytes are not a multiple of {TIME_ENTRY_BYTES}")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            last = index.last()
            if last is not None and timestamp <= last[0]:
                if timestamp == 0 and offset == 0:
                    break
                raise IndexDamaged(f"timestamp {timestamp} after {last[0]}")
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        return index
