"""All logs of a broker over its data folders (LogManager): load, create, delete, flush, retain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.runtime import HeldLock, Runtime
from ottla.storage import checkpoints
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.log import segment as segments
from ottla.storage.log.log import Log
from ottla.storage.log.open_files import OpenFiles
from ottla.storage.log.small_logs import Note
from ottla.storage.manager import twin_logs
from ottla.storage.manager.data_dir import DataDir, deletion_name, future_name
from ottla.storage.manager.housekeeping import Housekeeping
from ottla.storage.manager.log_files import Removals, close_logs, sync_files
from ottla.storage.settings import LogSettings
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_logger = logging.getLogger(__name__)
MAX_OPEN_FILES = 2048
_MAX_PREFERENCES = 10_000
# Fewer new logs than this are quicker made on the spot.
_CREATE_AHEAD_FROM = 100

DirFailureListener = Callable[[Path, list[TopicPartition]], None]


class NoUsableDir(OttlaError):
    """Not one data folder is left; the broker stops."""


class LogManager:
    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        settings_of: Callable[[str], LogSettings],
        *,
        lock_dir: Callable[[Path], HeldLock] | None = None,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._settings_of = settings_of
        self._lock_dir = lock_dir or runtime.disk.lock
        self._open_files = OpenFiles(max_open_files)
        self._dirs = {path: DataDir(runtime, path) for path in config.log_dirs}
        self._logs: dict[TopicPartition, Log] = {}
        # Copies of logs in the folders that these are being moved to.
        self._futures: dict[TopicPartition, Log] = {}
        self._removals = Removals(runtime)
        self._tasks: set[asyncio.Task[None]] = set()
        # Where logs that are still to come shall be created (AlterReplicaLogDirs).
        self._preferred_dirs: dict[TopicPartition, Path] = {}
        self._flushing: set[TopicPartition] = set()
        self._dir_failure_listeners: list[DirFailureListener] = []
        self.cleaner = Cleaner(
            runtime,
            lambda: self._config,
            lambda: (log for tp, log in self._logs.items() if tp not in self._futures),
            lambda tp: None if tp in self._futures else self._logs.get(tp),
            self.dir_failed,
            self.remove_files_later,
            self.flush,
        )
        self._housekeeping = Housekeeping(runtime, self)

    # --- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Locks the folders and loads what is in them; recovery runs only where it must."""
        try:
            await self._runtime.blocking(self._load_all)
        except OttlaError:
            self._release_locks()
            raise
        if not self.online_dirs():
            raise NoUsableDir("none of the folders in log.dirs can be used")
        for log in self._logs.values():
            log.on_roll = self._flush_soon
        self._spawn(self._housekeeping.run())
        self._spawn(self._housekeeping.compact())

    def _load_all(self) -> None:
        for data_dir in self._dirs.values():
            try:
                self._runtime.disk.make_dirs(data_dir.path)
                data_dir.lock = self._lock_dir(data_dir.path)
                found = data_dir.load(self._open_files, self._settings_of)
            except OSError as error:
                _logger.error("data folder %s is offline: %s", data_dir.path, error)
                data_dir.offline = str(error)
                continue
            for log in found.logs:
                self._logs[log.tp] = log if log.tp not in self._logs else self._one_of_two(log)
            delay_ms = self._config.integer("log.segment.delete.delay.ms")
            self._removals.add(found.doomed, delay_ms)
            self._futures.update((log.tp, log) for log in found.futures)

    def _one_of_two(self, log: Log) -> Log:
        kept, spare = twin_logs.pick(self._logs[log.tp], log)
        _logger.warning("%s is kept, %s goes: a move was cut short", kept.folder, spare.folder)
        if self._doom(spare):
            self._dirs[spare.data_dir].log_count -= 1
        return kept

    async def shutdown(self) -> None:
        """Flush, snapshot, close, checkpoints, then the marker of a clean stop per folder."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for data_dir in self._online():
            logs, notes = self._logs_in(data_dir), list[Note]()
            every = logs + [log for log in self._futures.values() if log.data_dir == data_dir.path]
            try:
                await self._runtime.blocking(partial(close_logs, every, self._runtime, notes))
                await self._checkpoint_bounds(data_dir, logs)
                await self._runtime.blocking(partial(data_dir.mark_clean, notes))
            except OSError as error:
                _logger.error("data folder %s was not closed cleanly: %s", data_dir.path, error)
        self._release_locks()

    def _release_locks(self) -> None:
        for data_dir in self._dirs.values():
            if data_dir.lock is not None:
                data_dir.lock.release()
                data_dir.lock = None

    # --- logs -------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def logs(self) -> Iterable[Log]:
        return self._logs.values()

    def get_or_create(
        self, tp: TopicPartition, *, is_new: bool = True, topic_id: TopicId = ZERO_TOPIC_ID
    ) -> Log:
        """Raises KafkaError(KAFKA_STORAGE_ERROR). Where a folder is offline, a log that is not
        known to be new may be in there: it is not created afresh elsewhere."""
        log = self._logs.get(tp)
        if log is not None:
            return log
        if not is_new and self.offline_dirs():
            offline = ",".join(map(str, self.offline_dirs()))
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {tp} because log directories {offline} are offline",
            )
        for data_dir in self._candidates(tp):
            try:
                self._forget_namesake(data_dir, tp)
                log = self._create(data_dir, tp, topic_id)
            except OSError as error:
                self.dir_failed(data_dir.path, error)
                continue
            data_dir.log_count += 1
            return self._created(log)
        tried = ", ".join(map(str, self._dirs))
        text = f"No log directories available. Tried {tried}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def _candidates(self, tp: TopicPartition) -> list[DataDir]:
        """Least loaded first, but a folder that was asked for before all others."""
        preferred = self._preferred_dirs.pop(tp, None)
        return sorted(self._online(), key=lambda found: (found.path != preferred, found.log_count))

    def _forget_namesake(self, data_dir: DataDir, tp: TopicPartition) -> None:
        """What the checkpoints say of an earlier log of that name must not hold for a new one."""
        if tp in data_dir.gone:
            data_dir.write_all(self._logs_in(data_dir))

    def _create(self, data_dir: DataDir, tp: TopicPartition, topic_id: TopicId) -> Log:
        return Log.create(
            self._runtime,
            self._open_files,
            tp,
            data_dir.path / str(tp),
            self._settings_of(tp.topic),
            topic_id=topic_id,
        )

    def _enter(self, log: Log) -> Log:
        log.on_roll = self._flush_soon
        self._logs[log.tp] = log
        return log

    def _created(self, log: Log) -> Log:
        policy = ",".join(sorted(log.settings.cleanup_policy))
        properties = f"cleanup.policy={policy}, retention.ms={log.settings.retention_ms}"
        text = "Created log for partition %s in %s with properties {%s}."
        _logger.info(text, log.tp, log.folder, properties)
        return self._enter(log)

    async def create_ahead(self, wanted: Mapping[TopicPartition, TopicId]) -> None:
        """Makes the files of many new logs off the event loop, which a large LeaderAndIsr would
        hold up for seconds. What fails here is left to `get_or_create`."""
        missing = [tp for tp in wanted if tp not in self._logs]
        if len(missing) < _CREATE_AHEAD_FROM or self.offline_dirs():
            return
        plans: list[tuple[DataDir, TopicPartition]] = []
        try:
            for tp in missing:
                data_dir = self._candidates(tp)[0]
                self._forget_namesake(data_dir, tp)
                data_dir.log_count += 1
                plans.append((data_dir, tp))
        except OSError as error:
            self.dir_failed(data_dir.path, error)
            return
        made: list[Log] = []

        def work() -> None:
            for data_dir, tp in plans:
                made.append(self._create(data_dir, tp, wanted[tp]))

        try:
            await self._runtime.blocking(work)
        except OSError as error:
            _logger.error("logs could not be created: %s", error)
        for log in made:
            if log.tp not in self._logs and self._dirs[log.data_dir].offline is None:
                self._created(log)
        for data_dir in self._dirs.values():
            data_dir.log_count = len(self._logs_in(data_dir))

    def prefer_dir(self, tp: TopicPartition, path: Path) -> None:
        """Creates the log of `tp` in this folder when it comes; the oldest wishes are dropped."""
        self._preferred_dirs[tp] = path
        if len(self._preferred_dirs) > _MAX_PREFERENCES:
            del self._preferred_dirs[next(iter(self._preferred_dirs))]

    def stale_logs(self, topic_ids: Mapping[str, TopicId | None]) -> list[TopicPartition]:
        """Logs of topics that are gone or were made again while this broker was away.

        `topic_ids` has the topics that exist, with None where the id is not known. A log that
        does not know its own topic id cannot be told to be stale, unless it is empty.
        """

        def is_stale(log: Log) -> bool:
            if log.tp.topic not in topic_ids:
                return log.topic_id != ZERO_TOPIC_ID or not log.end_offset
            return log.topic_id != ZERO_TOPIC_ID and (
                topic_ids[log.tp.topic] not in (None, log.topic_id)
            )

        return [tp for tp, log in self._logs.items() if is_stale(log)]

    def delete(self, tp: TopicPartition) -> None:
        """The folder is renamed at once and removed after the delay; a copy goes with it."""
        self.delete_future(tp)
        log = self._logs.pop(tp, None)
        if log is not None and self._doom(log):
            self._dirs[log.data_dir].log_count -= 1

    def _doom(self, log: Log) -> bool:
        """Marks the folder of a log that nobody knows any more for removal."""
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        target = log.data_dir / deletion_name(log.tp, random_hex)
        try:
            log.release()
            self._runtime.disk.rename(log.folder, target)
        except OSError as error:
            self.dir_failed(log.data_dir, error)
            return False
        log.move_to(target)
        self._dirs[log.data_dir].gone.add(log.tp)
        self._removals.add([target], log.settings.file_delete_delay_ms)
        return True

    # --- moves between folders (KIP-113) ----------------------------------------------------

    def future(self, tp: TopicPartition) -> Log | None:
        return self._futures.get(tp)

    def futures(self) -> Mapping[TopicPartition, Log]:
        return self._futures

    def create_future(self, tp: TopicPartition, path: Path) -> Log:
        """An empty copy of a log in another folder; raises KafkaError(KAFKA_STORAGE_ERROR)."""
        current = self._logs[tp]
        random_hex = f"{self._runtime.random.getrandbits(128):032x}"
        try:
            copy = Log.create(
                self._runtime,
                self._open_files,
                tp,
                path / future_name(tp, random_hex),
                current.settings,
                topic_id=current.topic_id,
            )
        except OSError as error:
            self.dir_failed(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        self._futures[tp] = copy
        return copy

    def delete_future(self, tp: TopicPartition) -> None:
        copy = self._futures.pop(tp, None)
        if copy is not None:
            self._doom(copy)

    def replace_with_future(self, tp: TopicPartition) -> Log:
        """The copy, which has everything, becomes the log (LogManager.replaceCurrentWithFutureLog).
        Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        copy, current = self._futures.pop(tp), self._logs[tp]
        target = copy.data_dir / str(tp)
        try:
            copy.release()
            self._forget_namesake(self._dirs[copy.data_dir], tp)
            self._runtime.disk.rename(copy.folder, target)
            # A power cut must not take this name back and leave the log set aside.
            self._runtime.disk.sync_dir(copy.data_dir)
        except OSError as error:
            self.dir_failed(copy.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        copy.move_to(target)
        self._dirs[copy.data_dir].log_count += 1
        self._enter(copy)
        if self._doom(current):
            self._dirs[current.data_dir].log_count -= 1
        return copy

    def remove_files_later(self, log: Log, paths: list[Path]) -> None:
        """Files that a truncation or retention set aside."""
        self._removals.add(paths, log.settings.file_delete_delay_ms)

    @property
    def config(self) -> BrokerConfig:
        return self._config

    def reconfigure(self, config: BrokerConfig) -> None:
        """Other dynamic broker configs: log.cleaner.* and the pauses hold from the next round."""
        self._config = config

    def update_settings(self, topic: str, settings: LogSettings) -> None:
        for log in (*self._logs.values(), *self._futures.values()):
            if log.tp.topic == topic:
                log.settings = settings
                log.active.index_interval_bytes = settings.index_interval_bytes

    # --- folders ----------------------------------------------------------------------------

    def _online(self) -> list[DataDir]:
        return [data_dir for data_dir in self._dirs.values() if data_dir.offline is None]

    def online_dirs(self) -> list[Path]:
        return [data_dir.path for data_dir in self._online()]

    def offline_dirs(self) -> list[Path]:
        return [data_dir.path for data_dir in self._dirs.values() if data_dir.offline is not None]

    def _logs_in(self, data_dir: DataDir) -> list[Log]:
        return [log for log in self._logs.values() if log.data_dir == data_dir.path]

    def add_dir_failure_listener(self, listener: DirFailureListener) -> None:
        """`listener(path, partitions)` is called once per folder that fails."""
        self._dir_failure_listeners.append(listener)

    def dir_failed(self, path: Path, error: OSError) -> None:
        """Takes the folder and all its logs out of use."""
        data_dir = self._dirs[path]
        if data_dir.offline is not None:
            return
        _logger.error("data folder %s fails and goes offline: %s", path, error)
        data_dir.offline = str(error)
        for tp in [tp for tp, copy in self._futures.items() if copy.data_dir == path]:
            self._futures.pop(tp).release()
        lost = self._logs_in(data_dir)
        for log in lost:
            del self._logs[log.tp]
            log.release()
        for listener in self._dir_failure_listeners:
            listener(path, [log.tp for log in lost])

    # --- flush and checkpoints --------------------------------------------------------------

    def _flush_soon(self, log: Log) -> None:
        """After a roll: the sealed segment is synced in the background."""
        if log.tp not in self._flushing:
            self._flushing.add(log.tp)
            self._spawn(self._flush_sealed(log))

    async def _flush_sealed(self, log: Log) -> None:
        tried = -1
        try:
            # Again where another segment was sealed while the disk was at work.
            while log.active.base_offset > max(log.recovery_point, tried):
                tried = log.active.base_offset
                await self.flush(log)
        except KafkaError as error:
            _logger.error("%s", error)
        finally:
            self._flushing.discard(log.tp)

    async def flush(self, log: Log) -> None:
        """Makes everything appended so far durable, then moves the recovery point."""
        end_offset, generation = log.end_offset, log.generation
        paths = [
            segment.path(suffix)
            for number, segment in enumerate(log.segments)
            if number + 1 == len(log.segments)
            or log.segments[number + 1].base_offset > log.recovery_point
            for suffix in segments.SEGMENT_SUFFIXES[:3]
        ]
        paths += log.unsynced
        synced = set(paths)
        epochs = log.epochs.entries() if log.epochs.dirty else None
        log.epochs.dirty = False
        folder = log.folder

        def work() -> None:
            disk = self._runtime.disk
            if epochs is not None:
                disk.write_atomically(
                    folder / checkpoints.LEADER_EPOCHS, checkpoints.encode_epochs(epochs)
                )
            sync_files(self._runtime, paths)

        try:
            await self._runtime.blocking(work)
        except FileNotFoundError:
            return  # the log was deleted meanwhile
        except OSError as error:
            self.dir_failed(log.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flush of {log.tp} failed") from None
        log.unsynced -= synced
        log.last_flush_ms = self._runtime.clock.now_ms()
        if log.generation == generation:
            log.recovery_point = max(log.recovery_point, end_offset)

    async def checkpoint_high_watermarks(self) -> None:
        for data_dir in self._online():
            logs = self._logs_in(data_dir)
            if all(log.checkpointed_high_watermark == log.high_watermark for log in logs):
                continue
            await self._checkpoint(
                data_dir, data_dir.high_watermarks(logs), checkpoints.HIGH_WATERMARKS
            )
            for log in logs:
                log.checkpointed_high_watermark = log.high_watermark

    async def _checkpoint(
        self, data_dir: DataDir, offsets: Mapping[TopicPartition, int], name: str
    ) -> None:
        order = data_dir.order()
        try:
            # Formatting many thousand lines is kept off the event loop as well.
            await self._runtime.blocking(lambda: data_dir.write(name, offsets, order))
        except OSError as error:
            self.dir_failed(data_dir.path, error)

    # --- regular work -----------------------------------------------------------------------

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def checkpoint_offsets(self) -> None:
        gone = {data_dir.path: set(data_dir.gone) for data_dir in self._online()}
        await self.checkpoint_cleaned()
        for data_dir in self._online():
            await self._checkpoint_bounds(data_dir, self._logs_in(data_dir))
            if gone[data_dir.path]:
                watermarks = data_dir.high_watermarks(self._logs_in(data_dir))
                await self._checkpoint(data_dir, watermarks, checkpoints.HIGH_WATERMARKS)
                data_dir.gone -= gone[data_dir.path]

    async def _checkpoint_bounds(self, data_dir: DataDir, logs: list[Log]) -> None:
        points, starts = data_dir.recovery_points(logs), data_dir.start_offsets(logs)
        await self._checkpoint(data_dir, points, checkpoints.RECOVERY_POINTS)
        await self._checkpoint(data_dir, starts, checkpoints.LOG_STARTS)

    async def checkpoint_cleaned(self) -> None:
        for data_dir in self._online():
            offsets = data_dir.cleaned_offsets(self._logs_in(data_dir))
            if offsets != data_dir.checkpointed_cleaned:
                await self._checkpoint(data_dir, offsets, checkpoints.CLEANED)
                data_dir.checkpointed_cleaned = offsets

    def delete_old_segments(self) -> None:
        """Retention by time, size and log start over all logs."""
        self._housekeeping.delete_old_segments()

    async def remove_due(self) -> None:
        await self._removals.remove_due()
