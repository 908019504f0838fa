"""Logs of deleted topics that are kept for a while (ADR 50).

They are in a folder of their own in each data folder, where nobody loads them. Its name is that of
KRaft's metadata log, which Apache Kafka 2.8 passes over at its start; any other name that is not a
partition's keeps such a broker from starting. What the checkpoints know of a log goes into the name
of its folder: one rename does it all, on a full disk too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.runtime import Disk, Runtime
from ottla.storage.log.log import Log
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.folder_names import TRASH_FOLDER
from ottla.types import TopicId

logger = logging.getLogger(__name__)

# In the folder of a log that came back with open transactions: where it ended then, and its
# last leader epoch.
UNDELETED_FILE = "ottla.undeleted"
_LONGEST_TOPIC = 120
_ID_DIGITS = 32


class TrashedLog(NamedTuple):
    """A folder in the trash, and what its name tells."""

    path: Path
    topic_id: TopicId
    # The topic's name at its deletion, perhaps cut short.
    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    cleaned_offset: int

    @property
    def data_dir(self) -> Path:
        return self.path.parent.parent


def folder_name(log: Log) -> str:
    """`<topic>-<p>.<32 hex of the topic id>.<start>.<high watermark>.<cleaned up to>`."""
    offsets = f"{log.start_offset}.{log.high_watermark}.{log.cleaned_offset}"
    return f"{log.tp.topic[:_LONGEST_TOPIC]}-{log.tp.partition}.{log.topic_id.hex()}.{offsets}"


def parse(path: Path) -> TrashedLog | None:
    """None for what somebody else put there."""
    parts = path.name.rsplit(".", 4)
    if len(parts) != 5 or len(parts[1]) != _ID_DIGITS:
        return None
    topic, _, partition = parts[0].rpartition("-")
    try:
        topic_id = bytes.fromhex(parts[1])
        numbers = [int(text) for text in (partition, *parts[2:])]
    except ValueError:
        return None
    if not topic or numbers[0] < 0 or numbers[1] < 0 or numbers[2] < 0:
        return None
    return TrashedLog(path, topic_id, topic, *numbers)


class Trash:
    """Which logs are in the trash. A partition is there twice only if two data folders had it."""

    def __init__(self, runtime: Runtime, dirs: DataDirs) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._logs: dict[TopicId, list[TrashedLog]] = {}

    def load(self, data_dir: Path) -> None:
        """Blocking; raises OSError."""
        disk, folder = self._runtime.disk, data_dir / TRASH_FOLDER
        if not disk.is_dir(folder):
            return
        for name in sorted(disk.list_dir(folder)):
            found = parse(folder / name)
            if found is not None and disk.is_dir(found.path):
                self._logs.setdefault(found.topic_id, []).append(found)

    def topic_ids(self) -> set[TopicId]:
        return set(self._logs)

    def __iter__(self) -> Iterator[TrashedLog]:
        for logs in self._logs.values():
            yield from logs

    def add(self, log: Log) -> bool:
        """Renames the folder of a log that is closed, for good before this returns; False where
        that fails, and the data folder with it."""
        folder = log.data_dir / TRASH_FOLDER
        target = folder / folder_name(log)
        data_dir = log.data_dir
        try:
            self._runtime.disk.make_dirs(folder)
            log.release()
            self._runtime.disk.rename(log.folder, target)
            self._runtime.disk.sync_dir(folder)
            self._runtime.disk.sync_dir(data_dir)
        except OSError as error:
            self._dirs.failed(data_dir, error)
            return False
        log.move_to(target)
        logger.info("the log of %s is in the trash: %s", log.tp, target)
        self._dirs[data_dir].forget(log.tp)
        found = parse(target)
        if found is not None:
            self._logs.setdefault(found.topic_id, []).append(found)
        return True

    def find(self, topic_id: TopicId, partition: int) -> TrashedLog | None:
        """Of two, the one that got further."""
        usable = self._dirs.online()
        found = [
            log
            for log in self._logs.get(topic_id, ())
            if log.partition == partition and log.data_dir in usable
        ]
        return max(found, key=lambda log: (log.high_watermark, log.start_offset), default=None)

    def forget(self, log: TrashedLog) -> None:
        """Its folder has another name by now."""
        logs = self._logs.get(log.topic_id, [])
        if log in logs:
            logs.remove(log)
        if not logs:
            self._logs.pop(log.topic_id, None)

    def of(self, topic_id: TopicId) -> list[TrashedLog]:
        """Those in folders that can be used."""
        usable = self._dirs.online()
        return [log for log in self._logs.get(topic_id, ()) if log.data_dir in usable]

    async def sizes(self) -> dict[Path, int]:
        """Bytes of records, by folder."""
        found: dict[Path, int] = {}
        logs = list(self)
        await self._runtime.blocking(lambda: _measure(self._runtime.disk, logs, found))
        return found


def _measure(disk: Disk, logs: list[TrashedLog], found: dict[Path, int]) -> None:
    for log in logs:
        try:
            names = disk.list_dir(log.path)
            found[log.path] = sum(
                disk.size(log.path / name) for name in names if name.endswith(".log")
            )
        except OSError:
            continue  # gone meanwhile, or its disk failed
