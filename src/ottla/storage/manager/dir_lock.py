"""The locks of a broker's data folders, held from before the first look into them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.runtime import Disk, HeldLock


class DirLocks:
    """One broker at a time in each folder of `log.dirs` (Kafka's FileLock)."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._held: dict[Path, HeldLock] = {}

    def take_all(self, folders: Iterable[Path]) -> None:
        """Raises DirInUse. A folder that cannot be made or locked for another reason is left to
        whoever loads it: he meets the same error, and goes on with the other folders."""
        for folder in folders:
            try:
                self._disk.make_dirs(folder)
                self.take(folder)
            except OSError:
                continue

    def take(self, folder: Path) -> HeldLock:
        """The lock, taken now unless it is held already; raises DirInUse or OSError."""
        held = self._held.get(folder)
        if held is None:
            held = self._held[folder] = self._disk.lock(folder)
        return held

    async def release(self) -> None:
        while self._held:
            self._held.popitem()[1].release()
