"""All partitions of this broker: roles from the controller, appends, fetches (ReplicaManager)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.fetching.preferred_replica import (
    NO_PREFERENCE,
    Candidate,
    is_rack_aware,
    preferred_replica,
)
from ottla.broker.fetching.reads import is_answer, read_again, read_all
from ottla.broker.fetching.sessions import FetchSessions
from ottla.broker.quotas.throttles import ReplicationThrottles
from ottla.broker.replication import roles
from ottla.broker.replication.append import Appends
from ottla.broker.replication.hosted import HostedPartitions
from ottla.broker.replication.leadership import LeadershipListeners
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.replication.partition import IsrSubmitter, Partition
from ottla.broker.replication.purgatory import (
    FetchWait,
    Readable,
    Timeouts,
)
from ottla.broker.replication.types import (
    FetchParams,
    FetchPartition,
    FetchResult,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.storage.log.log import Log
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.settings import LogSettings
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.replication.follower.fetcher import FetcherManager
    from ottla.config.broker import BrokerConfig
    from ottla.wire import messages as m

logger = logging.getLogger(__name__)


class ReplicaManager:
    """`fetchers` may be left out where a broker stands alone (tests)."""

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
        self._timeouts = Timeouts()
        self.appends = Appends(self.partitions, log_manager, runtime.clock, self._timeouts)
        self.fetch_sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"), runtime.random
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        # On its way out this broker follows nobody anew: a leader would count it as caught up and
        # wait for it when it is gone.
        self.is_leaving = False
        self.fetchers: FetcherManager | None = None
        self._seen_brokers_version = -1
        self.moves = LogDirMoves(self)
        self._rack_aware = is_rack_aware(config.optional_text("replica.selector.class"))
        self.throttles = ReplicationThrottles(runtime.clock, self.broker_id, config)

    # --- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        from ottla.broker.replication.follower.fetcher import FetcherManager

        self.fetchers = FetcherManager(self)
        self.log_manager.add_dir_failure_listener(self._dir_failed)
        self.metadata_cache.add_listener(self._brokers_may_have_gone)
        interval_ms = self.config.integer("replica.high.watermark.checkpoint.interval.ms")
        self._spawn(self._every(interval_ms, self.log_manager.checkpoint_high_watermarks))
        self._spawn(self._every(self._lag_max_ms // 2, self._shrink_all))

    async def shutdown(self) -> None:
        """Stops fetching, answers whoever waits, writes the high watermarks."""
        self._stopping = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.moves.shutdown()
        if self.fetchers is not None:
            await self.fetchers.shutdown()
        for partition in self.partitions:
            partition.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._timeouts.close()
        await self.log_manager.checkpoint_high_watermarks()

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
        self.stop_fetching([tp])
        partition = self.partitions.remove(tp)
        if partition is not None:
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.log = None
        self.moves.forget(tp)
        self.log_manager.delete(tp)
        self.leadership.ended(tp, leader_epoch)

    def set_offline(self, tp: TopicPartition) -> None:
        partition = self.partitions.set_offline(tp)
        self.moves.forget(tp)
        if self.fetchers is not None:
            self.fetchers.remove([tp])
        if partition is not None:
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            partition.log = None

    def adopt_log(self, partition: Partition, log: Log) -> None:
        """The log was moved to another folder; a follower goes on fetching into it."""
        partition.use_log(log)
        if not partition.is_leader and partition.leader is not None:
            self.stop_fetching([partition.tp])
            self.start_fetching([partition])

    def _dir_failed(self, path: Path, lost: list[TopicPartition]) -> None:
        for tp in lost:
            partition = self.partitions.get(tp)
            was_leader = partition is not None and partition.is_leader
            self.set_offline(tp)
            if was_leader:
                self.leadership.ended(tp, None)
        if self._on_dir_failure is not None:
            self._on_dir_failure(path)

    # --- orders of the controller -----------------------------------------------------------

    def become_leader_or_follower(
        self, request: m.LeaderAndIsrRequest, version: int
    ) -> m.LeaderAndIsrResponse:
        response = roles.become_leader_or_follower(self, request, version)
        self.moves.resume()
        return response

    def stop_replicas(self, request: m.StopReplicaRequest, version: int) -> m.StopReplicaResponse:
        return roles.stop_replicas(self, request, version)

    def stop_fetching(self, tps: Iterable[TopicPartition]) -> None:
        if self.fetchers is not None:
            self.fetchers.remove(tps)

    def start_fetching(self, partitions: Iterable[Partition]) -> None:
        if self.fetchers is not None and not (self._stopping or self.is_leaving):
            self.fetchers.add(partitions)

    def on_topic_config_change(self, topic: str, log_config: LogSettings) -> None:
        self.log_manager.update_settings(topic, log_config)

    # --- fetch ------------------------------------------------------------------------------

    async def fetch(
        self, params: FetchParams, partitions: Sequence[tuple[TopicPartition, FetchPartition]]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """Reads, and waits up to `max_wait_ms` where fewer than `min_bytes` are there."""
        results = read_all(params, partitions, self)
        if params.is_follower:
            self.note_follower(params.replica_id, partitions, results)
        if params.max_wait_ms <= 0 or not partitions or is_answer(params, results):
            return results
        offsets: dict[Readable, int] = {}
        for tp, want in partitions:
            partition = self.partitions.get(tp)
            if partition is not None:
                offsets[partition] = want.fetch_offset
        wait = self.new_wait(params, offsets)
        try:
            await wait.future
        finally:
            wait.detach()
        return read_again(params, partitions, results, self)

    def new_wait(self, params: FetchParams, offsets: dict[Readable, int]) -> FetchWait:
        held_back: set[Readable] = set()
        if params.is_follower and self.throttles.leader.is_on:
            held_back = {
                partition
                for partition in self.partitions
                if partition.is_leader and self.is_throttled(partition, params.replica_id)
            }
        return FetchWait(
            self._timeouts,
            params.max_wait_ms,
            params.min_bytes,
            offsets,
            as_follower=params.is_follower,
            committed=params.reads_committed,
            held_back=held_back,
        )

    def preferred_replica(
        self, params: FetchParams, partition: Partition, fetch_offset: int
    ) -> int:
        if not self._rack_aware or not partition.is_leader:
            return NO_PREFERENCE
        cache, now_ms = self.metadata_cache, self.runtime.clock.monotonic_ms()
        candidates = []
        for replica, remote in partition.remotes.items():
            known = cache.broker(replica)
            if (
                known is not None
                and params.listener in known.endpoints
                and remote.start_offset <= fetch_offset <= remote.end_offset
            ):
                behind_ms = now_ms - remote.caught_up_ms
                candidates.append(Candidate(replica, known.rack, remote.end_offset, behind_ms))
        return preferred_replica(params.client_rack, self.config.rack, candidates)

    # --- throttles --------------------------------------------------------------------------

    def is_throttled(self, partition: Partition, replica_id: int) -> bool:
        return self.throttles.holds_back(partition, replica_id)

    def count_sent(self, results: Iterable[tuple[TopicPartition, FetchResult]]) -> None:
        """What followers get in an answer."""
        if self.throttles.leader.is_on:
            for tp, result in results:
                log = self.partitions.log(tp) if result.size else None
                if log is not None:
                    self.throttles.sent(log, result.size)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Other dynamic broker configs: the rates of replication."""
        self.throttles.reconfigure(config)

    def note_follower(
        self,
        replica_id: int,
        partitions: Sequence[tuple[TopicPartition, FetchPartition]],
        results: list[tuple[TopicPartition, FetchResult]],
    ) -> None:
        now_ms = self.runtime.clock.monotonic_ms()
        for (tp, want), (_, result) in zip(partitions, results, strict=True):
            if result.error is ErrorCode.NONE and result.diverging_epoch is None:
                partition = self.partitions.get(tp)
                if partition is not None:
                    partition.follower_fetched(
                        replica_id, want.fetch_offset, want.log_start_offset, now_ms
                    )
