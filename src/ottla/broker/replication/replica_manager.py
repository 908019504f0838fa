"""All partitions of this broker and the parts that deal with them (ReplicaManager)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.quotas.throttles import ReplicationThrottles
from ottla.broker.replication.alter_isr import IsrSubmitter
from ottla.broker.replication.append import Appends
from ottla.broker.replication.examiner import Examiner
from ottla.broker.replication.follower.fetcher import FetcherManager, Surroundings
from ottla.broker.replication.hosted import HostedPartitions
from ottla.broker.replication.leadership import LeadershipListeners
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.timeouts import Timeouts
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.storage.manager.log_manager import LogManager
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)


class ReplicaManager:
    """Makes the parts that deal with this broker's partitions and holds them together where
    something happens to a partition as a whole: it is deleted, its folder fails, brokers go."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        log_manager: LogManager,
        metadata_cache: MetadataCache,
        alter_isr: IsrSubmitter,
        *,
        broker_id: int | None = None,
        on_dir_failure: Callable[[Path], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.config = config
        self.log_manager = log_manager
        self.metadata_cache = metadata_cache
        self.broker_id = config.broker_id if broker_id is None else broker_id
        self._alter_isr = alter_isr
        self._on_dir_failure = on_dir_failure
        self._lag_max_ms = config.integer("replica.lag.time.max.ms")
        self.partitions = HostedPartitions(metadata_cache, self._make_partition)
        self.leadership = LeadershipListeners()
        self.timeouts = Timeouts()
        self.examiner = Examiner(runtime)
        self.appends = Appends(
            self.partitions, log_manager, runtime.clock, self.timeouts, self.examiner
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen_brokers_version = -1
        self.throttles = ReplicationThrottles(runtime.clock, self.broker_id, config)
        self.fetchers = FetcherManager(
            Surroundings(
                runtime, config, self.broker_id, metadata_cache, log_manager, self.throttles
            )
        )
        self.moves = LogDirMoves(log_manager, self.partitions, self.fetchers)

    # --- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        self.log_manager.dirs.add_failure_listener(self._dir_failed)
        self.metadata_cache.add_listener(self._brokers_may_have_gone)
        interval_ms = self.config.integer("replica.high.watermark.checkpoint.interval.ms")
        self._spawn(self._every(interval_ms, self.log_manager.checkpoints.write_high_watermarks))
        self._spawn(self._every(self._lag_max_ms // 2, self._shrink_all))

    async def shutdown(self) -> None:
        """Stops fetching, answers whoever waits, writes the high watermarks."""
        self.fetchers.is_leaving = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.moves.shutdown()
        await self.fetchers.shutdown()
        for partition in self.partitions:
            partition.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.timeouts.close()
        self.examiner.close()
        await self.log_manager.checkpoints.write_high_watermarks()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                result = work()
                if asyncio.iscoroutine(result):
                    await result
            except (OSError, KafkaError):
                logger.exception("%s failed", getattr(work, "__name__", work))

    def _shrink_all(self) -> None:
        now_ms = self.runtime.clock.monotonic_ms()
        for partition in list(self.partitions):
            told = self.metadata_cache.partition_state(partition.tp)
            if told is not None:
                partition.catch_up_with(told)
            partition.maybe_shrink(now_ms)

    # --- partitions -------------------------------------------------------------------------

    def _make_partition(self, tp: TopicPartition) -> Partition:
        return Partition(
            tp,
            self.broker_id,
            self._alter_isr,
            lag_max_ms=self._lag_max_ms,
            monotonic_ms=self.runtime.clock.monotonic_ms,
            is_alive=self.metadata_cache.is_alive,
        )

    def _brokers_may_have_gone(self, _topics: frozenset[str]) -> None:
        """Nobody waits for a follower that is no longer there."""
        version = self.metadata_cache.brokers_version
        if version == self._seen_brokers_version:
            return
        self._seen_brokers_version = version
        now_ms = self.runtime.clock.monotonic_ms()
        for partition in self.partitions:
            if partition.is_leader:
                partition.raise_high_watermark(now_ms)

    def delete(self, tp: TopicPartition, leader_epoch: int | None = None) -> None:
        """Takes the replica and its log away; `leader_epoch` is the order's, where it has one."""
        self._take_away(tp)
        self.log_manager.delete(tp)
        self.leadership.ended(tp, leader_epoch)

    async def set_aside(self, tp: TopicPartition) -> None:
        """Takes the replica away and keeps its log, under a name that nobody loads."""
        self.stop_hosting(tp)
        await self.log_manager.set_aside(tp, lambda: self.partitions.get(tp) is None)

    async def keep(self, tp: TopicPartition) -> bool:
        """Takes the replica away and puts its log into the trash; False where that fails."""
        self.stop_hosting(tp)
        return await self.log_manager.trash_moves.keep(tp, lambda: self.partitions.get(tp) is None)

    def stop_hosting(self, tp: TopicPartition) -> None:
        """Takes the replica away and leaves its log as it is."""
        if self.partitions.get(tp) is not None:
            self._take_away(tp)
            self.leadership.ended(tp, None)

    def _take_away(self, tp: TopicPartition) -> None:
        self.fetchers.remove([tp])
        partition = self.partitions.remove(tp)
        if partition is not None:
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.log = None
        self.moves.forget(tp)

    def set_offline(self, tp: TopicPartition) -> None:
        partition = self.partitions.set_offline(tp)
        self.moves.forget(tp)
        self.fetchers.remove([tp])
        if partition is not None:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            partition.log = None

    def _dir_failed(self, path: Path, lost: list[TopicPartition]) -> None:
        for tp in lost:
            partition = self.partitions.get(tp)
            was_leader = partition is not None and partition.is_leader
            self.set_offline(tp)
            if was_leader:
                self.leadership.ended(tp, None)
        if self._on_dir_failure is not None:
            self._on_dir_failure(path)
