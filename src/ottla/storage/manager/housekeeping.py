"""What is done for all logs from time to time: checkpoints, retention, flushes, compaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.runtime import Runtime
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.log import retention
from ottla.storage.log.log import Log
from ottla.storage.manager.checkpointer import Checkpointer
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.flusher import Flusher
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import Removals

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)
_RETENTION_FIRST_MS = 30_000
_HOUSEKEEPING_MS = 1_000
_PRODUCER_EXPIRY_MS = 600_000


class Housekeeping:
    """Two loops: one for compaction, which may take long, and one for the rest."""

    def __init__(
        self,
        runtime: Runtime,
        config: Callable[[], BrokerConfig],
        table: LogTable,
        dirs: DataDirs,
        *,
        checkpoints: Checkpointer,
        flusher: Flusher,
        removals: Removals,
        cleaner: Cleaner,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._table = table
        self._dirs = dirs
        self._checkpoints = checkpoints
        self._flusher = flusher
        self._removals = removals
        self._cleaner = cleaner

    async def run(self) -> None:
        """One loop for everything but compaction; a second is fine enough for all."""
        now = self._runtime.clock.monotonic_ms()
        config = self._config()
        jobs: list[tuple[Callable[[], object], int]] = [
            (
                self._checkpoints.write_offsets,
                config.integer("log.flush.offset.checkpoint.interval.ms"),
            ),
            (self._delete_in_turns, config.integer("log.retention.check.interval.ms")),
            (self._flush_by_time, _HOUSEKEEPING_MS),
            (self._expire_producers, _PRODUCER_EXPIRY_MS),
            (self._removals.remove_due, _HOUSEKEEPING_MS),
        ]
        due = [now + min(interval, _RETENTION_FIRST_MS) for _, interval in jobs]
        while True:
            await asyncio.sleep(_HOUSEKEEPING_MS / 1000)
            now = self._runtime.clock.monotonic_ms()
            for number, (job, interval) in enumerate(jobs):
                if now >= due[number]:
                    due[number] = now + interval
                    try:
                        result = job()
                        if asyncio.iscoroutine(result):
                            await result
                    except (OSError, KafkaError) as error:
                        logger.error("%s failed: %s", job.__name__.strip("_"), error)

    async def compact(self) -> None:
        """Compacts one log after the other, then pauses (LogCleaner.CleanerThread)."""
        cleaner = self._cleaner
        while True:
            cleaned = await cleaner.clean_next() if cleaner.is_on else None
            if cleaned is None:
                await asyncio.sleep(max(cleaner.backoff_ms, 1) / 1000)
            else:
                await self._checkpoints.write_cleaned()

    async def _flush_by_time(self) -> None:
        now_ms = self._runtime.clock.now_ms()
        for log in list(self._table.logs()):
            limit_ms = log.settings.flush_ms
            if log.end_offset > log.recovery_point and now_ms - log.last_flush_ms >= limit_ms:
                await self._flusher.flush(log)

    def _expire_producers(self) -> None:
        now_ms = self._runtime.clock.now_ms()
        idle_ms = self._config().integer("transactional.id.expiration.ms")
        for log in self._table.logs():
            if len(log.producers):
                log.producers.expire(now_ms, idle_ms)

    def delete_old_segments(self) -> None:
        """Retention by time, size and log start over all logs."""
        now_ms = self._runtime.clock.now_ms()
        for log in list(self._table.logs()):
            self._retain(log, now_ms)

    async def _delete_in_turns(self) -> None:
        """The same, with a turn for everybody else after each log that lost something: ten
        thousand of them may be due at once, and files are slow."""
        now_ms = self._runtime.clock.now_ms()
        for log in list(self._table.logs()):
            is_there = self._table.get(log.tp) is log
            if is_there and self._retain(log, now_ms):
                await asyncio.sleep(0)

    def _retain(self, log: Log, now_ms: int) -> bool:
        """True where something was deleted."""
        if log.is_stray or log.tp == self._cleaner.busy_with:
            return False
        try:
            return self._drop_deletable(log, now_ms)
        except OSError as error:
            self._dirs.failed(log.data_dir, error)
        except KafkaError as error:
            # Its own trouble: the other logs are still to be looked at.
            logger.error("%s: retention meets damage: %s", log.tp, error)
        return False

    def _drop_deletable(self, log: Log, now_ms: int) -> bool:
        count = retention.deletable_segments(log, now_ms)
        if count == 0:
            return False
        if count == len(log.segments):
            log.roll()
        removed = log.drop_segments(0, count)
        if log.start_offset < log.segments[0].base_offset:
            log.advance_start_offset(log.segments[0].base_offset)
        self._removals.add_files(log, removed)
        return True
