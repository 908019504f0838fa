"""All logs of a broker over its data folders (LogManager): load, create, delete, move."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, InvariantViolated, KafkaError, OttlaError
from ottla.printable import one_line
from ottla.runtime import HeldLock, Runtime
from ottla.state_changes import MANY_LINES
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.log.log import Log
from ottla.storage.log.small_logs import Note
from ottla.storage.manager import folder_names, twin_logs
from ottla.storage.manager.background import BackgroundTasks
from ottla.storage.manager.checkpointer import Checkpointer
from ottla.storage.manager.closing import close_logs
from ottla.storage.manager.data_dir import DataDir
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.flusher import Flusher
from ottla.storage.manager.housekeeping import Housekeeping
from ottla.storage.manager.id_syncs import IdSyncs
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import FolderListener, Removals, no_listener, place_of
from ottla.storage.manager.renamed_logs import RenamedLogs
from ottla.storage.manager.strays import Strays
from ottla.storage.manager.trash import Trash
from ottla.storage.manager.trash_moves import Rooms, TrashMoves
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)
MAX_OPEN_FILES = 2048
_MAX_PREFERENCES = 10_000
# Fewer new logs than this are made faster on the spot.
_CREATE_AHEAD_FROM = 100


class NoUsableDir(OttlaError):
    """Not one data folder is left; the broker stops."""


class LogManager:
    """Makes, deletes and moves logs, and starts and stops their regular work.

    Its parts are for everyone: `dirs` knows which folders can be used, `ids` tells them whose logs
    are new, `flusher` and `checkpoints` write to them, `removals` are files that wait for their
    end, `strays` logs that wait for a person, `trash` logs that may be wanted back, `renamed` finds
    logs by the ids of their topics, `cleaner` compacts.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        settings_of: Callable[[str], LogConfig],
        *,
        lock_dir: Callable[[Path], HeldLock] | None = None,
        max_open_files: int = MAX_OPEN_FILES,
        owners_are_known: bool = True,
    ) -> None:
        """Without `owners_are_known` what is loaded counts as stray until somebody says whose it
        is: till then no retention touches it."""
        self._runtime = runtime
        self._config = config
        self._settings_of = settings_of
        self._lock_dir = lock_dir or runtime.disk.lock
        self._open_files = OpenFiles(max_open_files)
        self._owners_are_known = owners_are_known
        # Where logs that are still to come are to be created (AlterReplicaLogDirs).
        self._preferred_dirs: dict[TopicPartition, Path] = {}
        self._tasks = BackgroundTasks()
        self._on_folder: FolderListener = no_listener
        self._table = table = LogTable()
        self.dirs = DataDirs(runtime, config.log_dirs, table)
        self.ids = IdSyncs(runtime, self.dirs)
        self.removals = Removals(runtime, self.dirs, self._open_files)
        self.strays = Strays(runtime, self.dirs)
        self.trash = Trash(runtime, self.dirs)
        self.trash_moves = TrashMoves(
            runtime,
            Rooms(self.dirs, table, self.trash, self.removals, self._open_files),
            settings_of,
            enter=self._enter,
            leave=self._leave,
            forget_namesake=self._forget_namesake,
        )
        self.renamed = RenamedLogs(runtime, self.dirs, table, settings_of)
        self.flusher = Flusher(runtime, self.dirs, self._tasks)
        self.checkpoints = Checkpointer(runtime, self.dirs, table)
        self.cleaner = Cleaner(
            runtime,
            lambda: self._config,
            table.unmoved,
            table.unmoved_log,
            self.dirs.failed,
            self.removals.add_files,
            self.flusher.flush,
        )
        self.housekeeping = Housekeeping(
            runtime,
            lambda: self._config,
            table,
            self.dirs,
            checkpoints=self.checkpoints,
            flusher=self.flusher,
            removals=self.removals,
            cleaner=self.cleaner,
        )

    # --- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Locks the folders and loads what is in them; recovery runs only where it must."""
        try:
            await self._runtime.blocking(self._load_all)
        except OttlaError:
            self.dirs.release_locks()
            raise
        if not self.dirs.online():
            raise NoUsableDir("none of the folders in log.dirs can be used")
        for log in self._table.logs():
            self._enter(log)
        self._tasks.spawn(self.ids.run())
        self._tasks.spawn(self.housekeeping.run())
        self._tasks.spawn(self.housekeeping.compact())

    def _load_all(self) -> None:
        for data_dir in self.dirs:
            try:
                self._runtime.disk.make_dirs(data_dir.path)
                data_dir.lock = self._lock_dir(data_dir.path)
                found = data_dir.load(self._open_files, self._settings_of)
                self.trash.load(data_dir.path)
            except OSError as error:
                logger.error("data folder %s is offline: %s", data_dir.path, error)
                data_dir.offline = str(error)
                continue
            for log in found.logs:
                log.is_stray = not self._owners_are_known
                known = self._table.get(log.tp)
                self._table.enter(log if known is None else self._one_of_two(known, log))
            delay_ms = self._config.integer("log.segment.delete.delay.ms")
            self.removals.add(found.doomed, delay_ms)
            self.strays.folders += found.strays
            for copy in found.futures:
                self._table.enter_future(copy)

    def _one_of_two(self, one: Log, other: Log) -> Log:
        kept, spare = twin_logs.pick(one, other)
        logger.warning("%s is kept, %s goes: a move was cut short", kept.folder, spare.folder)
        self._discard(spare)
        return kept

    async def shutdown(self) -> None:
        """Flush, snapshot, close, checkpoints, then the marker of a clean stop per folder."""
        await self._tasks.cancel()
        for data_dir in self.dirs.usable():
            logs, notes = self._table.logs_in(data_dir.path), list[Note]()
            every = logs + self._table.futures_in(data_dir.path)
            try:
                await self._runtime.blocking(partial(close_logs, every, self._runtime, notes))
                if await self.checkpoints.write_bounds(data_dir, logs):
                    await self._runtime.blocking(partial(data_dir.mark_clean, notes))
            except OSError as error:
                logger.error("data folder %s was not closed cleanly: %s", data_dir.path, error)
        self.dirs.release_locks()

    def listen(self, on_folder: FolderListener) -> None:
        """Tells of folders of partitions that are made and removed from now on."""
        self._on_folder = self.removals.on_folder = self.renamed.on_folder = on_folder
        self.trash_moves.on_folder = on_folder

    # --- logs -------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Log | None:
        return self._table.get(tp)

    def logs(self) -> Iterable[Log]:
        return self._table.logs()

    def get_or_create(
        self, tp: TopicPartition, *, is_new: bool = True, topic_id: TopicId = ZERO_TOPIC_ID
    ) -> Log:
        """Raises KafkaError: KAFKA_STORAGE_ERROR, or another for a partition that can have no
        folder. Where a folder is offline, a log that is not known to be new may be in there: it is
        not created afresh elsewhere."""
        log = self._table.get(tp)
        if log is not None:
            return log
        folder_names.check(tp)
        if not is_new and self.dirs.offline():
            offline = ",".join(map(str, self.dirs.offline()))
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {tp} because log directories {offline} are offline",
            )
        for data_dir in self._candidates(tp):
            try:
                self._forget_namesake(data_dir, tp)
                data_dir.shared_ids.add({str(tp): topic_id})
                log = self._create(data_dir, tp, topic_id)
            except OSError as error:
                refusal = folder_names.refused_name(tp, error)
                if refusal is not None:
                    raise refusal from None
                self.dirs.failed(data_dir.path, error)
                continue
            data_dir.log_count += 1
            self._created([log])
            self.ids.soon()
            return log
        tried = ", ".join(str(data_dir.path) for data_dir in self.dirs)
        text = f"No log directories available. Tried {tried}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def _candidates(self, tp: TopicPartition) -> list[DataDir]:
        """Least loaded first, but a folder that was asked for before all others."""
        preferred = self._preferred_dirs.pop(tp, None)
        return sorted(
            self.dirs.usable(), key=lambda found: (found.path != preferred, found.log_count)
        )

    def _forget_namesake(self, data_dir: DataDir, tp: TopicPartition) -> None:
        """What the checkpoints say of an earlier log of that name must not hold for a new one."""
        if tp in data_dir.gone:
            data_dir.write_all(self._table.logs_in(data_dir.path))

    def _create(self, data_dir: DataDir, tp: TopicPartition, topic_id: TopicId) -> Log:
        return Log.create(
            self._runtime,
            self._open_files,
            tp,
            data_dir.path / str(tp),
            self._settings_of(tp.topic),
            topic_id=topic_id,
            shares_id_file=True,
            data_dir=data_dir.path,
        )

    def _enter(self, log: Log) -> Log:
        log.on_roll = self.flusher.flush_soon
        log.side_files.on_first_record = self.dirs[log.data_dir].secure_id
        self._table.enter(log)
        return log

    def _created(self, logs: Iterable[Log]) -> None:
        lines: list[str] = []
        for log in logs:
            own = ", ".join(f"{key}={text}" for key, text in sorted(log.settings.overrides.items()))
            place = f"{log.tp} in {log.folder} with properties {{{own}}}"
            lines.append(one_line(f"Created log for partition {place}"))
            self._on_folder("folder-made", log.tp, place_of(log.folder))
            self._enter(log)
        logger.info("%s", "\n".join(lines), extra=MANY_LINES)

    async def create_ahead(self, wanted: Mapping[TopicPartition, TopicId]) -> None:
        """Makes the files of many new logs off the event loop, which a large LeaderAndIsr would
        hold up for seconds. What fails here is left to `get_or_create`."""
        missing = [
            tp
            for tp in wanted
            if self._table.get(tp) is None and folder_names.objection(tp) is None
        ]
        if len(missing) < _CREATE_AHEAD_FROM or self.dirs.offline():
            return
        plans: list[tuple[DataDir, TopicPartition]] = []
        try:
            for tp in missing:
                data_dir = self._candidates(tp)[0]
                self._forget_namesake(data_dir, tp)
                data_dir.log_count += 1
                plans.append((data_dir, tp))
        except OSError as error:
            self.dirs.failed(data_dir.path, error)
            for place, _ in plans:
                place.log_count -= 1
            return
        made: list[Log] = []

        def work() -> None:
            for data_dir in {place.path: place for place, _ in plans}.values():
                here = {str(tp): wanted[tp] for place, tp in plans if place is data_dir}
                data_dir.shared_ids.add(here)
                data_dir.shared_ids.make_durable()
            for data_dir, tp in plans:
                made.append(self._create(data_dir, tp, wanted[tp]))

        try:
            await self._runtime.blocking(work)
        except OSError as error:
            logger.error("logs could not be created: %s", error)
        new = [
            (data_dir, log)
            for (data_dir, _), log in zip(plans, made, strict=False)
            if self._table.get(log.tp) is None and data_dir.offline is None
        ]
        self._created([log for _, log in new])
        # Not counted anew: that would be a walk over all logs for each order.
        for data_dir, _ in plans:
            data_dir.log_count -= 1
        for data_dir, _ in new:
            data_dir.log_count += 1

    def prefer_dir(self, tp: TopicPartition, path: Path) -> None:
        """Creates the log of `tp` in this folder when it comes; the oldest wishes are dropped."""
        self._preferred_dirs[tp] = path
        if len(self._preferred_dirs) > _MAX_PREFERENCES:
            del self._preferred_dirs[next(iter(self._preferred_dirs))]

    def delete(self, tp: TopicPartition) -> None:
        """The folder is renamed at once and removed after the delay; a copy goes with it."""
        self.delete_future(tp)
        log = self._table.remove(tp)
        if log is not None:
            self._discard(log)

    async def set_aside(self, tp: TopicPartition, is_idle: Callable[[], bool]) -> None:
        """The folder gets a name that nobody loads, and stays; the partition's name is free. Not
        where somebody uses the log again by the time that it is flushed."""
        log = self._table.get(tp)
        if log is None:
            return
        try:
            await self.flusher.flush(log)
        except KafkaError:
            return  # its data folder is offline now, and the log with it
        if self._table.get(tp) is log and is_idle() and self.strays.add(log):
            self.delete_future(tp)
            self._table.remove(tp)
            self.dirs[log.data_dir].log_count -= 1

    def _leave(self, log: Log) -> None:
        """Its folder has another name, and the table has it no more."""
        self.delete_future(log.tp)
        self._table.remove(log.tp)
        self.dirs[log.data_dir].log_count -= 1

    def _discard(self, log: Log) -> None:
        """Its folder does not count any more and is removed later; the table has it no more."""
        if self.removals.doom(log):
            self.dirs[log.data_dir].log_count -= 1

    # --- moves between folders (KIP-113) ----------------------------------------------------

    def future(self, tp: TopicPartition) -> Log | None:
        return self._table.future(tp)

    def futures(self) -> Mapping[TopicPartition, Log]:
        return self._table.futures()

    def create_future(self, tp: TopicPartition, path: Path) -> Log:
        """An empty copy of a log in another folder; raises KafkaError as `get_or_create`."""
        current = self._table.get(tp)
        if current is None:
            raise InvariantViolated(f"{tp} has no log to be copied")
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        try:
            copy = Log.create(
                self._runtime,
                self._open_files,
                tp,
                path / folder_names.future_name(tp, random_hex),
                current.settings,
                topic_id=current.topic_id,
            )
        except OSError as error:
            refusal = folder_names.refused_name(tp, error)
            if refusal is not None:
                raise refusal from None
            self.dirs.failed(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        self._table.enter_future(copy)
        return copy

    def delete_future(self, tp: TopicPartition) -> None:
        copy = self._table.remove_future(tp)
        if copy is not None:
            self.removals.doom(copy)

    def replace_with_future(self, tp: TopicPartition) -> Log:
        """The copy, which has everything, becomes the log (LogManager.replaceCurrentWithFutureLog).
        Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        copy, current = self._table.remove_future(tp), self._table.get(tp)
        if copy is None or current is None:
            raise InvariantViolated(f"{tp} is not being moved")
        target = copy.data_dir / str(tp)
        is_nameless = copy.topic_id == ZERO_TOPIC_ID
        topic_id = current.topic_id if is_nameless else copy.topic_id
        try:
            copy.release()
            self._forget_namesake(self.dirs[copy.data_dir], tp)
            self.dirs[copy.data_dir].shared_ids.add({str(tp): topic_id})
            self.dirs[copy.data_dir].shared_ids.make_durable()
            if is_nameless and topic_id != ZERO_TOPIC_ID:
                # A power cut took the copy's, or an order told the log's since the copy was made.
                copy.assign_topic_id(topic_id, is_shared=True)
            self._runtime.disk.rename(copy.folder, target)
            # A power cut must not take this name back and leave the log set aside.
            self._runtime.disk.sync_dir(copy.data_dir)
        except OSError as error:
            self.dirs.failed(copy.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        copy.move_to(target)
        self.dirs[copy.data_dir].log_count += 1
        self._enter(copy)
        self._discard(current)
        return copy

    # --- configs ----------------------------------------------------------------------------

    @property
    def config(self) -> BrokerConfig:
        return self._config

    def reconfigure(self, config: BrokerConfig) -> None:
        """Other dynamic broker configs: log.cleaner.* and the pauses hold from the next round."""
        self._config = config

    def update_settings(self, topic: str, settings: LogConfig) -> None:
        for log in self._table.of_topic(topic):
            log.use_settings(settings)
