"""A bound on open descriptors: many partitions, few files in use at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from pathlib import Path
from typing import Protocol

from ottla.storage.segment.cold_reads import ColdReads


class Releasable(Protocol):
    folder: Path

    def release(self) -> None:
        """Gives back what can be had again from disk: the descriptor and loaded indexes."""


class OpenFiles:
    """Least recently used owners are released once more than `capacity` hold something.

    What is read of old segments goes through their `cold_reads`.
    Used from the event loop only; work on other threads opens its own descriptors.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._owners: OrderedDict[Releasable, None] = OrderedDict()
        self.cold_reads = ColdReads()

    def __len__(self) -> int:
        return len(self._owners)

    def touch(self, owner: Releasable) -> None:
        owners = self._owners
        if owner in owners:
            owners.move_to_end(owner)
            return
        owners[owner] = None
        while len(owners) > self._capacity:
            oldest, _ = owners.popitem(last=False)
            oldest.release()

    def forget(self, owner: Releasable) -> None:
        self._owners.pop(owner, None)

    def release_in(self, folders: Set[Path]) -> None:
        """They are removed: a file that is still open would keep its place on the disk."""
        for owner in [owner for owner in self._owners if owner.folder in folders]:
            self.forget(owner)
            owner.release()
