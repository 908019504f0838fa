"""Files and folders that are set aside until their delay is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ottla.runtime import Runtime
from ottla.storage.log.log import Log
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.folder_names import deletion_name, is_deletion_name, parse_folder_name
from ottla.storage.segment.open_files import OpenFiles
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

# Told of a partition's folder (`folder-made`, `folder-renamed`, `folder-removed`) and where it is,
# below the folder that holds the data folder; must neither wait nor raise.
FolderListener = Callable[[str, TopicPartition, str], None]


def no_listener(kind: str, tp: TopicPartition, place: str) -> None:
    """Nobody wants to know."""


class Removals:
    """Readers may have a file open still: it is renamed first and removed after a while."""

    def __init__(self, runtime: Runtime, dirs: DataDirs, open_files: OpenFiles) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._open_files = open_files
        # (due by the monotonic clock, path)
        self._waiting: list[tuple[float, Path]] = []
        # Data folders in which a log was renamed, and not synced yet.
        self._unsynced: set[Path] = set()
        # Folders of whole logs, and whose they were.
        self._logs: dict[Path, TopicPartition] = {}
        self.on_folder: FolderListener = no_listener

    def add(self, paths: Iterable[Path], delay_ms: int) -> None:
        due = self._runtime.clock.monotonic_ms() + delay_ms
        self._waiting.extend((due, path) for path in paths)

    def add_files(self, log: Log, paths: Iterable[Path]) -> None:
        """Files that a truncation, retention or compaction set aside."""
        self.add(paths, log.settings.file_delete_delay_ms)

    def doom(self, log: Log) -> bool:
        """Marks the folder of a log that nobody knows any more for removal; False where that
        fails, and the data folder with it."""
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        target = log.data_dir / deletion_name(log.tp, random_hex)
        try:
            log.release()
            self._runtime.disk.rename(log.folder, target)
        except OSError as error:
            self._dirs.failed(log.data_dir, error)
            return False
        log.move_to(target)
        self._dirs[log.data_dir].forget(log.tp)
        self._unsynced.add(log.data_dir)
        self._logs[target] = log.tp
        self.on_folder("folder-renamed", log.tp, place_of(target))
        self.add([target], log.settings.file_delete_delay_ms)
        return True

    def doom_folder(self, folder: Path, data_dir: Path, tp: TopicPartition, delay_ms: int) -> bool:
        """The same for a log that is not loaded, and may be anywhere in its data folder."""
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        target = data_dir / deletion_name(tp, random_hex)
        try:
            self._runtime.disk.rename(folder, target)
        except OSError as error:
            self._dirs.failed(data_dir, error)
            return False
        self._unsynced.add(data_dir)
        self._logs[target] = tp
        self.on_folder("folder-renamed", tp, place_of(target))
        self.add([target], delay_ms)
        return True

    def folders(self) -> list[tuple[Path, TopicPartition]]:
        """Whole logs that wait for their end; of what an earlier process left the topic's name may
        be cut short."""
        found = []
        for _, path in self._waiting:
            tp = self._logs.get(path)
            if tp is None and is_deletion_name(path.name):
                tp = parse_folder_name(path.name.rpartition(".")[0])
            if tp is not None:
                found.append((path, tp))
        return found

    async def make_durable(self) -> bool:
        """When this returns no power cut can bring back a log that was doomed before; False where
        that fails, and a data folder with it."""
        folders, self._unsynced = self._unsynced, set()
        is_durable = True
        for folder in sorted(folders):
            try:
                await self._runtime.blocking(partial(self._runtime.disk.sync_dir, folder))
            except OSError as error:
                self._dirs.failed(folder, error)
                is_durable = False
        return is_durable

    async def remove_due(self) -> None:
        now = self._runtime.clock.monotonic_ms()
        due = [path for deadline, path in self._waiting if deadline <= now]
        if due:
            self._waiting = [entry for entry in self._waiting if entry[0] > now]
            removed: set[Path] = set()
            await self._runtime.blocking(lambda: self._remove(due, removed))
            # An answer that was under way has opened its file again since the log was closed.
            self._open_files.release_in(removed)
            for path in due:
                tp = self._logs.pop(path, None)
                if tp is not None and path in removed:
                    self.on_folder("folder-removed", tp, place_of(path))

    def _remove(self, paths: list[Path], removed: set[Path]) -> None:
        """`removed` gets those that are gone."""
        disk = self._runtime.disk
        for path in paths:
            try:
                if disk.is_dir(path):
                    disk.remove_tree(path)
                else:
                    disk.remove(path)
            except OSError as error:
                # The next start tries again; the others need not wait for that.
                logger.warning("%s cannot be removed: %s", path, error)
            else:
                removed.add(path)


def place_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"
