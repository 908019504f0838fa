"""Compaction as a regular task of a broker (LogCleaner, LogCleanerManager).

One log at a time, the dirtiest first. The work is done on another thread in slices of about two
milliseconds with pauses as long between them, so that requests go on; only putting the new
segments in place runs on the event loop. A log that cannot be compacted is left out from then on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.runtime import Runtime
from ottla.storage.compaction import plan
from ottla.storage.compaction.plan import DirtyLog
from ottla.storage.log.log import Log
from ottla.storage.segment import renamed_files
from ottla.storage.segment.file_names import LOG_SUFFIX
from ottla.storage.segment.segment import Segment
from ottla.types import TopicPartition
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.storage.compaction.rewrite import GroupRewrite, LastWrite, Source

logger = logging.getLogger(__name__)


class Interrupted(Exception):
    """The log was truncated, deleted or moved during a pass; what was written is thrown away."""


class Cleaner:
    """`logs` are those that may be compacted now, `current` gives one of them by its name. Not one
    that is being copied to another folder: the copy takes over how far it is compacted."""

    def __init__(
        self,
        runtime: Runtime,
        config: Callable[[], BrokerConfig],
        logs: Callable[[], Iterable[Log]],
        current: Callable[[TopicPartition], Log | None],
        on_failure: Callable[[Path, OSError], None],
        set_aside: Callable[[Log, list[Path]], None],
        flush: Callable[[Log], Awaitable[None]],
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._logs = logs
        self._current = current
        self._on_failure = on_failure
        self._set_aside = set_aside
        self._flush = flush
        # What is being compacted now; retention leaves it alone meanwhile.
        self.busy_with: TopicPartition | None = None
        # Damaged logs, each with its generation: one that was cut or made anew is another one.
        self._uncleanable: dict[TopicPartition, tuple[Log, int]] = {}
        self.max_dirty_percent = 0

    @property
    def backoff_ms(self) -> int:
        return self._config().integer("log.cleaner.backoff.ms")

    @property
    def is_on(self) -> bool:
        config = self._config()
        return config.boolean("log.cleaner.enable") and config.integer("log.cleaner.threads") > 0

    async def clean_next(self) -> Log | None:
        """Compacts the dirtiest log; None where none is dirty enough or the pass was given up."""
        chosen = self._choose()
        if chosen is None:
            return None
        log, generation = chosen.log, chosen.log.generation
        self.busy_with = log.tp
        try:
            await self._clean(chosen)
        except Interrupted as reason:
            logger.info("%s: compaction is given up: %s", log.tp, reason)
            return None
        except OSError as error:
            # Files may be gone because the log was truncated, moved or deleted meanwhile.
            if self._current(log.tp) is log and log.generation == generation:
                self._on_failure(log.data_dir, error)
            return None
        except (KafkaError, WireError) as error:
            self._leave_out(log, generation, error)
        finally:
            self.busy_with = None
        return log

    def _choose(self) -> DirtyLog | None:
        now_ms = self._runtime.clock.now_ms()
        candidates = []
        # A copy: a folder that fails takes its logs away.
        for log in list(self._logs()):
            if not log.settings.compact or self.is_left_out(log):
                continue
            if len(log.segments) > 1:
                try:
                    candidates.append(plan.examine(log, now_ms))
                except KafkaError as error:
                    self._leave_out(log, log.generation, error)
                except OSError as error:
                    self._on_failure(log.data_dir, error)
        self.max_dirty_percent = round(100 * max((found.ratio for found in candidates), default=0))
        return plan.filthiest(candidates)

    def is_left_out(self, log: Log) -> bool:
        return self._uncleanable.get(log.tp) == (log, log.generation)

    def _leave_out(self, log: Log, generation: int, error: Exception) -> None:
        logger.error("%s cannot be compacted and is left out: %s", log.tp, error)
        self._uncleanable[log.tp] = (log, generation)

    # --- one pass ---------------------------------------------------------------------------

    async def _clean(self, dirty: DirtyLog) -> None:
        # A broker without compacted topics never loads these.
        from ottla.storage.compaction import rewrite as compaction
        from ottla.storage.compaction.offset_map import OffsetMap, capacity_for
        from ottla.storage.compaction.transactions import CleanedTransactions

        log, config = dirty.log, self._config()
        generation = log.generation
        if log.epochs.dirty:
            # Where an epoch began can be told by its batches only as long as they are there.
            await self._flush(log)
            self._check_unchanged(log, generation, log.segments)
        horizon_ms = self._delete_horizon_ms(log, dirty.first_dirty)
        aborted = [entry for segment in log.segments for entry in segment.transactions.aborted()]
        buffer_bytes = config.integer("log.cleaner.io.buffer.size")
        newest = OffsetMap(
            capacity_for(
                config.integer("log.cleaner.dedupe.buffer.size"),
                config.number("log.cleaner.io.buffer.load.factor"),
            )
        )
        parts = [part for part in log.segments if part.base_offset < dirty.first_uncleanable]
        sources = [
            source
            for source in _sources(log, parts, dirty.first_uncleanable)
            if source.end_offset > dirty.first_dirty
        ]
        disk = self._runtime.disk
        # The marker of one that ended before is not read again: the producer's later transactions
        # would pass for aborted, and what they delete would come back with their tombstones' end.
        open_since = [entry for entry in aborted if entry.last_offset >= dirty.first_dirty]
        await self._run(
            compaction.map_keys(disk, sources, dirty.first_dirty, open_since, newest, buffer_bytes)
        )
        self._check_unchanged(log, generation, parts)
        transactions = CleanedTransactions(aborted)
        covered = [part for part in parts if part.base_offset < newest.end_offset]
        before = log.size
        for group in plan.group_segments(log, covered, dirty.first_uncleanable):
            self._check_unchanged(log, generation, group)
            rewrite = compaction.GroupRewrite(
                disk,
                _sources(log, group, dirty.first_uncleanable),
                newest,
                transactions,
                last_writes=_last_writes(log),
                delete_horizon_ms=horizon_ms,
                index_interval_bytes=log.settings.index_interval_bytes,
                buffer_bytes=buffer_bytes,
            )
            await self._replace(log, generation, group, rewrite)
        log.cleaned_offset = newest.end_offset
        logger.info(
            "%s: compacted to offset %d, %d bytes instead of %d",
            log.tp,
            newest.end_offset,
            log.size,
            before,
        )

    def _delete_horizon_ms(self, log: Log, first_dirty: int) -> int:
        """Tombstones and markers in segments last written before this are not needed any more."""
        clean = [segment for segment in log.segments if segment.base_offset < first_dirty]
        if not clean:
            return 0
        path = clean[-1].path(LOG_SUFFIX)
        return self._runtime.disk.mtime_ms(path) - log.settings.delete_retention_ms

    async def _replace(
        self, log: Log, generation: int, group: list[Segment], rewrite: GroupRewrite
    ) -> None:
        disk, folder = self._runtime.disk, log.folder
        base_offset = group[0].base_offset
        try:
            await self._run(rewrite.run())
            cleaned = rewrite.cleaned
            self._check_unchanged(log, generation, group)
            if cleaned is None:
                raise Interrupted("nothing was written")
            await self._runtime.blocking(lambda: renamed_files.to_swap(disk, folder, base_offset))
            self._check_unchanged(log, generation, group)
        except BaseException:
            # The folder may have been renamed or be gone: then there is nothing to take back.
            renamed_files.discard(disk, folder, base_offset)
            raise
        compacted = log.segments.opened(
            base_offset,
            cleaned.size,
            index_interval_bytes=log.settings.index_interval_bytes,
            created_ms=self._runtime.clock.now_ms(),
        )
        compacted.adopt_indexes(cleaned.offsets, cleaned.times)
        self._set_aside(log, log.replace_segments(group, compacted))

    def _check_unchanged(self, log: Log, generation: int, group: Sequence[Segment]) -> None:
        if self._current(log.tp) is not log:
            raise Interrupted("the log is gone or is being moved")
        if log.generation != generation or not log.segments.holds(group):
            raise Interrupted("its segments have changed")

    async def _run(self, steps: Iterator[int]) -> None:
        """Slices of blocking work, held back to log.cleaner.io.max.bytes.per.second."""
        clock = self._runtime.clock
        done = False
        size = 0

        def step() -> None:
            nonlocal done, size
            size = next(steps, -1)
            done = size < 0

        while not done:
            started_ms = clock.monotonic_ms()
            await self._runtime.blocking(step)
            rate = self._config().number("log.cleaner.io.max.bytes.per.second")
            took_ms = clock.monotonic_ms() - started_ms
            throttled_ms = max(size, 0) / rate * 1000 - took_ms if rate > 0 else 0.0
            await asyncio.sleep(max(took_ms, throttled_ms) / 1000)


def _sources(log: Log, parts: Sequence[Segment], end_offset: int) -> list[Source]:
    from ottla.storage.compaction.rewrite import Source

    bases = [segment.base_offset for segment in log.segments]
    found = []
    for part in parts:
        slot = bases.index(part.base_offset) + 1
        end = bases[slot] if slot < len(bases) else end_offset
        path = part.path(LOG_SUFFIX)
        found.append(Source(part.base_offset, end, path, part.size))
    return found


def _last_writes(log: Log) -> dict[int, LastWrite]:
    """ProducerStateManager.lastRecordsOfActiveProducers."""
    from ottla.storage.compaction.rewrite import LastWrite

    return {
        producer_id: LastWrite(
            producer.batches[-1].last_offset if producer.batches else None, producer.epoch
        )
        for producer_id, producer in log.producers.items()
    }
