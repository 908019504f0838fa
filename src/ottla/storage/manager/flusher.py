"""Logs to disk, off the event loop: when asked to, and after a roll."""

from __future__ import annotations

import logging
from functools import partial

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.storage.log.flush import Flush
from ottla.storage.log.log import Log
from ottla.storage.manager.background import BackgroundTasks
from ottla.storage.manager.data_dirs import DataDirs
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)


class Flusher:
    """One flush per log at a time in the background; those that were asked for come besides."""

    def __init__(self, runtime: Runtime, dirs: DataDirs, tasks: BackgroundTasks) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._tasks = tasks
        # Logs whose sealed segments are being synced in the background.
        self._busy_with: set[TopicPartition] = set()

    async def flush(self, log: Log) -> None:
        """Makes everything appended so far durable, then moves the recovery point."""
        flush: Flush | None = None
        try:
            flush = log.begin_flush()
            await self._runtime.blocking(partial(flush.run, self._runtime.disk))
        except FileNotFoundError:
            # The log was deleted meanwhile, or only a segment of it was: then nothing is noted yet.
            if flush is not None and flush.epochs is not None:
                log.epochs.dirty = True
            return
        except OSError as error:
            self._dirs.failed(log.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"flush of {log.tp} failed") from None
        log.end_flush(flush)

    def flush_soon(self, log: Log) -> None:
        """After a roll: the sealed segment is synced in the background."""
        if log.tp not in self._busy_with:
            self._busy_with.add(log.tp)
            self._tasks.spawn(self._flush_sealed(log))

    async def _flush_sealed(self, log: Log) -> None:
        tried, tp = -1, log.tp
        try:
            # Again where another segment was sealed while the disk was at work.
            while log.active.base_offset > max(log.recovery_point, tried):
                tried = log.active.base_offset
                await self.flush(log)
        except KafkaError as error:
            logger.error("%s", error)
        finally:
            # Under the name of before: the topic may have been renamed meanwhile.
            self._busy_with.discard(tp)
