"""The data folders of a broker: which can be used, and what follows when one fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ottla.runtime import Runtime
from ottla.storage.manager.data_dir import DataDir
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

DirFailureListener = Callable[[Path, list[TopicPartition]], None]


class DataDirs:
    """Folders of `log.dirs` in their order. One that fails stays out of use until a restart, and
    its logs leave the table."""

    def __init__(self, runtime: Runtime, paths: Iterable[Path], table: LogTable) -> None:
        self._dirs = {path: DataDir(runtime, path) for path in paths}
        self._table = table
        self._failure_listeners: list[DirFailureListener] = []

    def __iter__(self) -> Iterator[DataDir]:
        return iter(self._dirs.values())

    def __getitem__(self, path: Path) -> DataDir:
        return self._dirs[path]

    def usable(self) -> list[DataDir]:
        return [data_dir for data_dir in self if data_dir.offline is None]

    def online(self) -> list[Path]:
        return [data_dir.path for data_dir in self.usable()]

    def offline(self) -> list[Path]:
        return [data_dir.path for data_dir in self if data_dir.offline is not None]

    def add_failure_listener(self, listener: DirFailureListener) -> None:
        """`listener(path, partitions)` is called once per folder that fails."""
        self._failure_listeners.append(listener)

    def failed(self, path: Path, error: OSError) -> None:
        """Takes the folder and all its logs out of use."""
        data_dir = self._dirs[path]
        if data_dir.offline is not None:
            return
        logger.error("data folder %s fails and goes offline: %s", path, error)
        data_dir.offline = str(error)
        for copy in self._table.futures_in(path):
            self._table.remove_future(copy.tp)
            copy.release()
        lost = self._table.logs_in(path)
        for log in lost:
            self._table.remove(log.tp)
            log.release()
        for listener in self._failure_listeners:
            listener(path, [log.tp for log in lost])

    def release_locks(self) -> None:
        for data_dir in self:
            if data_dir.lock is not None:
                data_dir.lock.release()
                data_dir.lock = None
