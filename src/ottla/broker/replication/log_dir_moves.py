"""Moving replicas between the folders of this broker (KIP-113; ReplicaAlterLogDirsManager).

A copy grows in a `-future` folder beside the log, a chunk at a time on the event loop, held back to
replica.alter.log.dirs.io.max.bytes.per.second. Once it has everything, it takes the log's place
between two requests. Moves that a stop interrupted go on when the replica is assigned again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.quotas.replication import ALTER_LOG_DIRS_RATE, dynamic_rate
from ottla.broker.replication.follower.truncation import start_at_batch
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.broker.replication.follower.fetcher import FetcherManager
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.broker.replication.partition import Partition
    from ottla.storage.manager.log_manager import LogManager

logger = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
# The pause after each chunk: others have the event loop in between.
_MIN_PAUSE_S = 0.001


class LogDirMoves:
    """The moves that are under way, a task each."""

    def __init__(
        self, log_manager: LogManager, partitions: HostedPartitions, fetchers: FetcherManager
    ) -> None:
        self._log_manager = log_manager
        self._partitions = partitions
        self._fetchers = fetchers
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def move(self, tp: TopicPartition, folder: Path) -> None:
        """Begins to move a replica that is here; into the folder where it is means: stay there.
        Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        logs = self._log_manager
        log, copy = logs.get(tp), logs.future(tp)
        if log is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if copy is not None and copy.data_dir != folder:
            self.cancel(tp)
            copy = None
        if log.data_dir == folder:
            return
        if copy is None:
            logs.create_future(tp, folder)
        self._begin(tp)

    def cancel(self, tp: TopicPartition) -> None:
        """Gives a move up; the copy goes."""
        self._stop(tp)
        self._log_manager.delete_future(tp)

    def resume(self) -> None:
        """Goes on with moves whose replica is hosted (again)."""
        for tp, copy in list(self._log_manager.futures().items()):
            log = self._log_manager.get(tp)
            if log is not None and _differ(log, copy):
                # Its own log is in a folder that failed, or gone with one.
                logger.warning(
                    "%s is given up: its topic has ended or has another name", copy.folder
                )
                self.cancel(tp)
            elif self._partitions.get(tp) is not None:
                self._begin(tp)

    def forget(self, tp: TopicPartition) -> None:
        """The replica is gone or offline."""
        self._stop(tp)

    async def shutdown(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, tp: TopicPartition) -> None:
        if tp not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._run(tp))
            self._tasks[tp] = task

            def done(finished: asyncio.Task[None]) -> None:
                if self._tasks.get(tp) is finished:
                    del self._tasks[tp]

            task.add_done_callback(done)

    def _stop(self, tp: TopicPartition) -> None:
        task = self._tasks.pop(tp, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _run(self, tp: TopicPartition) -> None:
        logs = self._log_manager
        copy = logs.future(tp)
        try:
            await self._copy_all(tp)
        except OSError as error:
            if copy is not None:
                logs.dirs.failed(copy.data_dir, error)
        except (KafkaError, WireError) as error:
            logger.error("%s: the move to another folder is given up: %s", tp, error)
            self.cancel(tp)

    async def _copy_all(self, tp: TopicPartition) -> None:
        logs = self._log_manager
        generation = None
        while True:
            log, copy = logs.get(tp), logs.future(tp)
            partition = self._partitions.get(tp)
            if log is None or copy is None or partition is None:
                return
            is_known = generation == log.generation or (generation is None and not copy.end_offset)
            if not is_known or copy.end_offset < log.start_offset:
                # After a truncation, or with a copy that an earlier process left, nobody knows
                # whether it holds what the log holds.
                removed = copy.truncate_fully_and_start_at(log.start_offset)
                logs.removals.add_files(copy, removed)
            generation = log.generation
            if copy.end_offset >= log.end_offset:
                _settle_bounds(log, copy)
                await logs.flusher.flush(copy)
                # Records may have come during the flush; then there is more to copy first.
                if self._is_complete(tp, log, copy, generation):
                    self._adopt(partition, logs.replace_with_future(tp))
                    logger.info("%s: moved to %s", tp, copy.data_dir)
                    return
                continue
            size = self._copy_chunk(log, copy)
            rate = dynamic_rate(logs.config, ALTER_LOG_DIRS_RATE)
            await asyncio.sleep(max(_MIN_PAUSE_S, size / max(rate, 1)))

    def _adopt(self, partition: Partition, log: Log) -> None:
        """The log is in another folder now; a follower goes on fetching into it."""
        partition.use_log(log)
        if not partition.is_leader and partition.leader is not None:
            self._fetchers.remove([partition.tp])
            self._fetchers.add([partition])

    def _copy_chunk(self, log: Log, copy: Log) -> int:
        data = log.read(copy.end_offset, _CHUNK_BYTES, log.end_offset, min_one_batch=True)
        if data:
            logs = self._log_manager
            logs.removals.add_files(copy, start_at_batch(copy, data))
            copy.append_as_follower(data)
        else:
            # Compaction may leave a gap before the end.
            copy.roll(log.end_offset)
            copy.end_offset = log.end_offset
        return len(data)

    def _is_complete(self, tp: TopicPartition, log: Log, copy: Log, generation: int) -> bool:
        logs = self._log_manager
        if logs.get(tp) is not log or logs.future(tp) is not copy:
            return False
        if log.generation != generation or copy.end_offset != log.end_offset:
            return False
        _settle_bounds(log, copy)
        return True


def _settle_bounds(log: Log, copy: Log) -> None:
    copy.set_high_watermark(log.high_watermark)
    if log.start_offset > copy.start_offset:
        copy.advance_start_offset(min(log.start_offset, copy.high_watermark))
    copy.cleaned_offset = min(log.cleaned_offset, copy.end_offset)
    copy.epochs.become(log.epochs)


def _differ(log: Log, copy: Log) -> bool:
    """Whether the copy is of another topic's log."""
    return log.topic_id != copy.topic_id and ZERO_TOPIC_ID not in (log.topic_id, copy.topic_id)
