"""Reads of old records, which must not push out of the page cache what others need.

Whoever reads a log from its beginning pulls all of it through the page cache, once, and the
kernel makes room for it with pages that were written a moment ago and have not been read yet. So
what had to come from the disk is only borrowed: the cache keeps a bounded amount of it, for readers
close behind, and lets go of the oldest. What was in the cache before is somebody else's and stays;
the last segment of a log is never looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Protocol

from ottla.runtime import File

# As large as the largest folio of the kernel: it lets go of whole ones only.
PART_BYTES = 2 * 1024 * 1024
# All readers of old records together: enough for ten that are not quite at the same place.
LIMIT_BYTES = 32 * PART_BYTES


class OldFile(Protocol):
    """A segment that is not appended to."""

    def file(self) -> File:
        """Raises OSError."""

    def uncache(self, position: int, size: int) -> None:
        """Leaves no descriptor open that was not. Raises OSError."""


class ColdReads:
    """The parts of files that are borrowed, in the order in which they were."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = max(1, limit_bytes // PART_BYTES)
        self._parts: OrderedDict[tuple[OldFile, int], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parts)

    def note(self, segment: OldFile, position: int, size: int) -> None:
        """Somebody is about to read."""
        parts = self._parts
        first = position // PART_BYTES
        for number in range(first, (position + size - 1) // PART_BYTES + 1):
            key = (segment, number)
            if key in parts:
                continue
            # The kernel reads ahead: what follows a part that came from the disk did so as well.
            if (segment, number - 1) not in parts:
                start = position if number == first else number * PART_BYTES
                if segment.file().is_cached(start):
                    continue
            parts[key] = None
            # Whoever reads old records reads on: the disk brings the next part while this one is
            # on its way to the consumer, and the event loop does not wait for it.
            segment.file().prefetch((number + 1) * PART_BYTES, PART_BYTES)
        while len(parts) > self._limit:
            (oldest, number), _ = parts.popitem(last=False)
            _let_go(oldest, number)

    def forget(self, segment: OldFile) -> None:
        """Its files are about to be renamed or removed: lets go of its parts while they have their
        names. Afterwards another segment's file may have them."""
        for key in [key for key in self._parts if key[0] is segment]:
            self._parts.pop(key, None)
            _let_go(*key)


def _let_go(segment: OldFile, number: int) -> None:
    # The segment may be gone, and with it what the cache had of it.
    with suppress(OSError):
        segment.uncache(number * PART_BYTES, PART_BYTES)
