"""Logs on their way into the trash, out of it, and to their end (ADR 50)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.runtime import Runtime
from ottla.storage.log import recovery
from ottla.storage.log.log import Log
from ottla.storage.manager.closing import close_logs
from ottla.storage.manager.data_dir import DataDir
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import FolderListener, Removals, no_listener, place_of
from ottla.storage.manager.trash import UNDELETED_FILE, Trash, TrashedLog
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import TopicId, TopicPartition

logger = logging.getLogger(__name__)


class Rooms(NamedTuple):
    """The log manager's parts that logs move between."""

    dirs: DataDirs
    table: LogTable
    trash: Trash
    removals: Removals
    open_files: OpenFiles


class TrashMoves:
    """Part of the log manager, over the same table; what it does to a log as a whole it does by
    `enter`, `leave` and `forget_namesake`."""

    def __init__(
        self,
        runtime: Runtime,
        rooms: Rooms,
        settings_of: Callable[[str], LogConfig],
        *,
        enter: Callable[[Log], Log],
        leave: Callable[[Log], None],
        forget_namesake: Callable[[DataDir, TopicPartition], None],
    ) -> None:
        self._runtime = runtime
        self._rooms = rooms
        self._settings_of = settings_of
        self._enter = enter
        self._leave = leave
        self._forget_namesake = forget_namesake
        self.on_folder: FolderListener = no_listener
        # One move at a time: orders of two controllers, or of one that asks again, may be about
        # the same log, and a folder that somebody else has just taken is no failure of the disk.
        self._turn = asyncio.Lock()

    async def keep(self, tp: TopicPartition, is_idle: Callable[[], bool]) -> bool:
        """Puts the log into the trash, with all that is in it; False where that fails, and its data
        folder with it, or where somebody uses the log again by the time that it is closed."""
        async with self._turn:
            return await self._keep(tp, is_idle)

    async def _keep(self, tp: TopicPartition, is_idle: Callable[[], bool]) -> bool:
        table, dirs = self._rooms.table, self._rooms.dirs
        log = table.get(tp)
        if log is None:
            return True
        try:
            await self._runtime.blocking(partial(close_logs, [log], self._runtime, []))
        except OSError as error:
            dirs.failed(log.data_dir, error)
        if table.get(tp) is not log or not is_idle() or not self._rooms.trash.add(log):
            return False
        self._leave(log)
        self.on_folder("folder-kept", tp, place_of(log.folder))
        return True

    async def bring_back(self, wanted: Mapping[TopicPartition, TopicId]) -> None:
        """Takes logs out of the trash that are there and that no log stands in the way of. What
        fails takes its data folder along."""
        async with self._turn:
            await self._bring_back(wanted)

    async def _bring_back(self, wanted: Mapping[TopicPartition, TopicId]) -> None:
        trash, dirs = self._rooms.trash, self._rooms.dirs
        for tp, topic_id in wanted.items():
            found = trash.find(topic_id, tp.partition)
            if found is None or self._rooms.table.get(tp) is not None:
                continue
            try:
                self._forget_namesake(dirs[found.data_dir], tp)
                loaded: list[Log] = []
                await self._runtime.blocking(partial(self._load, tp, found, loaded))
            except (OSError, KafkaError) as error:
                dirs.failed(found.data_dir, OSError(f"{found.path}: {error}"))
                continue
            trash.forget(found)
            dirs[found.data_dir].log_count += 1
            self._enter(loaded[0])
            logger.info("the log of %s is back from the trash", tp)
            self.on_folder("folder-back", tp, place_of(loaded[0].folder))

    def _load(self, tp: TopicPartition, found: TrashedLog, loaded: list[Log]) -> None:
        """It is whole before it gets the name: a start after a crash loads it again, or finds it
        where it was."""
        log = recovery.load_log(
            self._runtime,
            self._rooms.open_files,
            tp,
            found.path,
            self._settings_of(tp.topic),
            # What is there was closed and synced.
            clean=True,
            recovery_point=0,
            start_offset=found.start_offset,
            high_watermark=found.high_watermark,
            was_compacted=found.cleaned_offset >= 0,
            shared_id=found.topic_id,
        )
        log.side_files.write_shared_id()
        log.recovery_point = log.end_offset
        log.cleaned_offset = min(found.cleaned_offset, log.end_offset)
        if log.producers.first_unstable_offset is not None:
            # With the epoch: this log may be cut off below its end, and get other records there.
            note = f"{log.end_offset} {log.epochs.latest}".encode()
            self._runtime.disk.write_atomically(found.path / UNDELETED_FILE, note)
        target = found.data_dir / str(tp)
        if log.side_files.needs_line:
            # The name tells it no more.
            ids = self._rooms.dirs[found.data_dir].shared_ids
            ids.add({str(tp): found.topic_id})
            ids.make_durable()
        self._runtime.disk.rename(found.path, target)
        # Where it came from last: a power cut in between finds it there and here, never nowhere.
        self._runtime.disk.sync_dir(found.data_dir)
        self._runtime.disk.sync_dir(found.path.parent)
        log.data_dir = found.data_dir
        log.move_to(target)
        loaded.append(log)

    async def purge(self, topic_id: TopicId, delay_ms: int) -> bool:
        """What the trash has of the topic is removed, after the delay; whether no power cut can
        bring it back from now on."""
        trash, removals = self._rooms.trash, self._rooms.removals
        async with self._turn:
            for log in trash.of(topic_id):
                tp = TopicPartition(log.topic, log.partition)
                if removals.doom_folder(log.path, log.data_dir, tp, delay_ms):
                    trash.forget(log)
        return await removals.make_durable() and topic_id not in trash.topic_ids()
