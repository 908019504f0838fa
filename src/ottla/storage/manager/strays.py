"""Logs that were set aside: no topic of now owns them, and nobody asked for their end (ADR 28).

A broker never loads or removes them. Whoever wants the records back stops the broker and gives the
folder its old name; whoever does not, removes it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from ottla.runtime import Disk, Runtime
from ottla.storage.log.log import Log
from ottla.storage.log.side_files import SideFiles
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.folder_names import stray_name
from ottla.types import TopicId

logger = logging.getLogger(__name__)


class StrayFolder(NamedTuple):
    path: Path
    topic_id: TopicId
    size: int


class Strays:
    """`folders` are those under names that no broker loads."""

    def __init__(self, runtime: Runtime, dirs: DataDirs) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self.folders: list[Path] = []

    def add(self, log: Log) -> bool:
        """Renames the folder of a log, for good before this returns; False where that fails, and
        the data folder with it."""
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        target = log.data_dir / stray_name(log.tp, random_hex)
        try:
            log.side_files.write_shared_id()
            log.release()
            self._runtime.disk.rename(log.folder, target)
            # Another log is about to take the name.
            self._runtime.disk.sync_dir(log.data_dir)
        except OSError as error:
            self._dirs.failed(log.data_dir, error)
            return False
        logger.warning("the log of %s is set aside as %s", log.tp, target)
        log.move_to(target)
        self._dirs[log.data_dir].forget(log.tp)
        self.folders.append(target)
        return True

    async def describe(self) -> list[StrayFolder]:
        """Those that are still there; a person may have taken some away."""
        found: list[StrayFolder] = []
        await self._runtime.blocking(lambda: self._look(found))
        return found

    def _look(self, found: list[StrayFolder]) -> None:
        disk = self._runtime.disk
        for path in self.folders:
            if path.parent in self._dirs.online() and disk.is_dir(path):
                topic_id = SideFiles(disk, path).read_topic_id()
                found.append(StrayFolder(path, topic_id, _size(disk, path)))


def _size(disk: Disk, folder: Path) -> int:
    size = 0
    for name in disk.list_dir(folder):
        if name.endswith(".log"):
            size += disk.size(folder / name)
    return size
