"""All partitions of this broker: roles from the controller, appends, fetches (ReplicaManager)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
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
from ottla.broker.replication.log_dir_moves import LogDirMoves
from ottla.broker.replication.partition import IsrSubmitter, Partition
from ottla.broker.replication.purgatory import (
    FetchWait,
    ProduceWait,
    Readable,
    SingleProduceWait,
    Timeouts,
)
from ottla.broker.replication.refusals import Refusals
from ottla.broker.replication.types import (
    FetchParams,
    FetchPartition,
    FetchResult,
    LeaderNode,
    ProduceResult,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.storage.append.checks import Origin, RecordsRejected
from ottla.storage.log.log import Log
from ottla.storage.manager.log_manager import LogManager
from ottla.topics.configs import LogConfig
from ottla.topics.names import INTERNAL_TOPICS
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.replication.follower.fetcher import FetcherManager
    from ottla.config.broker import BrokerConfig
    from ottla.wire import messages as m

_logger = logging.getLogger(__name__)
_ADMIN_CLIENT = "__admin_client"
_VALID_ACKS = (-1, 0, 1)
# Refusals that do not tell the log's start (ReplicaManager.appendToLocalLog).
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

OnLeader = Callable[[TopicPartition, int], None]
OnResign = Callable[[TopicPartition, int | None], None]


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
        self._partitions: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        self._timeouts = Timeouts()
        self.refusals = Refusals(runtime.clock.monotonic_ms)
        self.fetch_sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"), runtime.random
        )
        self._leadership_listeners: list[tuple[OnLeader, OnResign]] = []
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
        self.log_manager.dirs.add_failure_listener(self._dir_failed)
        self.metadata_cache.add_listener(self._brokers_may_have_gone)
        interval_ms = self.config.integer("replica.high.watermark.checkpoint.interval.ms")
        self._spawn(self._every(interval_ms, self.log_manager.checkpoints.write_high_watermarks))
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
        for partition in self._partitions.values():
            partition.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._timeouts.close()
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
                _logger.exception("%s failed", getattr(work, "__name__", work))

    def _shrink_all(self) -> None:
        now_ms = self.runtime.clock.monotonic_ms()
        for tp, partition in list(self._partitions.items()):
            told = self.metadata_cache.partition_state(tp)
            if told is not None:
                partition.catch_up_with(told)
            partition.maybe_shrink(now_ms)

    # --- partitions -------------------------------------------------------------------------

    def partition(self, tp: TopicPartition) -> Partition:
        """Raises KafkaError: 56 on an offline folder, 6 if only the cluster knows it, else 3."""
        partition = self._partitions.get(tp)
        if partition is not None:
            return partition
        if tp in self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {tp} is offline")
        if self.metadata_cache.contains(tp):
            # The controller assigned it here and the request is on its way, or it moved away.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def knows(self, tp: TopicPartition) -> bool:
        """Whether the partition exists, here or elsewhere in the cluster."""
        return tp in self._partitions or tp in self._offline or self.metadata_cache.contains(tp)

    def hosted(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    @property
    def offline_count(self) -> int:
        """Replicas that were in a folder that failed."""
        return len(self._offline)

    def is_offline(self, tp: TopicPartition) -> bool:
        return tp in self._offline

    def enter(self, tp: TopicPartition) -> Partition:
        """The partition, made if it is not here yet."""
        partition = self._partitions.get(tp)
        if partition is None:
            partition = self._partitions[tp] = Partition(
                tp,
                self.broker_id,
                self._alter_isr,
                lag_max_ms=self._lag_max_ms,
                monotonic_ms=self.runtime.clock.monotonic_ms,
                is_alive=self.metadata_cache.is_alive,
            )
        return partition

    def _brokers_may_have_gone(self, _topics: frozenset[str]) -> None:
        """Nobody waits for a follower that is no longer there."""
        version = self.metadata_cache.brokers_version
        if version == self._seen_brokers_version:
            return
        self._seen_brokers_version = version
        now_ms = self.runtime.clock.monotonic_ms()
        for partition in self._partitions.values():
            if partition.is_leader:
                partition.raise_high_watermark(now_ms)

    def drop(self, tp: TopicPartition, *, delete_log: bool) -> None:
        partition = self._partitions.pop(tp, None)
        if partition is not None:
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            partition.log = None
        self.moves.forget(tp)
        if delete_log:
            self.log_manager.delete(tp)

    def set_offline(self, tp: TopicPartition) -> None:
        partition = self._partitions.pop(tp, None)
        self._offline.add(tp)
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

    def log(self, tp: TopicPartition) -> Log | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.log

    def current_leader(self, tp: TopicPartition) -> tuple[int, int]:
        """(leader, epoch) as this replica knows it, else as the cluster does, else (-1, -1)."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.leader is not None:
            return partition.leader, partition.leader_epoch
        state = self.metadata_cache.partition_state(tp)
        return (-1, -1) if state is None else (state.leader, state.leader_epoch)

    def leader_nodes(self, leaders: Iterable[int], listener: str) -> list[LeaderNode]:
        """Where clients of a listener find these brokers; unknown ones are left out (KIP-951)."""
        nodes = []
        for leader in sorted(leaders):
            endpoint = self.metadata_cache.endpoint(leader, listener)
            if endpoint is not None:
                broker = self.metadata_cache.broker(leader)
                rack = None if broker is None else broker.rack
                nodes.append(LeaderNode(leader, endpoint.host, endpoint.port, rack))
        return nodes

    def _dir_failed(self, path: Path, lost: list[TopicPartition]) -> None:
        for tp in lost:
            was_leader = tp in self._partitions and self._partitions[tp].is_leader
            self.set_offline(tp)
            if was_leader:
                self.notify_resigned(tp, None)
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

    def add_leadership_listener(self, on_leader: OnLeader, on_resign: OnResign) -> None:
        """For coordinators: (partition, leader epoch) each time this broker starts or stops to
        lead; None as epoch where the replica went away altogether."""
        self._leadership_listeners.append((on_leader, on_resign))

    def notify_leader(self, tp: TopicPartition, leader_epoch: int) -> None:
        for on_leader, _ in self._leadership_listeners:
            on_leader(tp, leader_epoch)

    def notify_resigned(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        for _, on_resign in self._leadership_listeners:
            on_resign(tp, leader_epoch)

    def on_topic_config_change(self, topic: str, log_config: LogConfig) -> None:
        self.log_manager.update_settings(topic, log_config)

    # --- append -----------------------------------------------------------------------------

    async def append(
        self,
        entries: Mapping[TopicPartition, memoryview],
        *,
        acks: int,
        timeout_ms: int,
        internal_topics_allowed: bool = False,
        from_coordinator: bool = False,
        client_id: str | None = None,
    ) -> dict[TopicPartition, ProduceResult]:
        """Appends as leader; with acks -1 it returns when the in-sync replicas have it all."""
        if acks not in _VALID_ACKS:
            return {tp: ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries}
        allowed = internal_topics_allowed or from_coordinator or client_id == _ADMIN_CLIENT
        origin = Origin.COORDINATOR if from_coordinator else Origin.CLIENT
        results: dict[TopicPartition, ProduceResult] = {}
        wait: ProduceWait | None = None
        for tp, data in entries.items():
            try:
                if tp.topic in INTERNAL_TOPICS and not allowed:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Cannot append to internal topic {tp.topic}",
                    )
                partition = self.partition(tp)
                results[tp], required_offset = self._append_one(partition, data, acks, origin)
            except KafkaError as error:
                self.refusals.note(tp, data, error.code)
                if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    _logger.info("%s: %s", tp, error.message)
                results[tp] = self._refused(tp, error)
                continue
            log = partition.log
            if (
                log is not None
                and log.end_offset - log.recovery_point >= log.settings.flush_messages
            ):
                await self.log_manager.flusher.flush(log)
            if acks != -1 or log is None:
                continue
            if log.high_watermark >= required_offset:
                results[tp] = _with_error(results[tp], partition.acks_error())
                continue
            if wait is None:
                wait = ProduceWait(self._timeouts, timeout_ms)
            partition.produce_waits.add(required_offset, wait)
        if wait is not None:
            await wait.future
            for tp, code in wait.errors.items():
                results[tp] = _with_error(results[tp], code)
        return results

    def await_replicas(
        self,
        partition: Partition,
        required_offset: int,
        timeout_ms: int,
        on_end: Callable[[ErrorCode], None],
    ) -> None:
        """Calls `on_end` when the in-sync replicas have everything before an offset, or cannot."""
        wait = SingleProduceWait(self._timeouts, timeout_ms, on_end)
        partition.produce_waits.add(required_offset, wait)

    def _append_one(
        self, partition: Partition, data: memoryview, acks: int, origin: Origin
    ) -> tuple[ProduceResult, int]:
        log = partition.leader_log()
        earlier = self.refusals.of_an_earlier_batch(partition, data)
        if earlier is not None:
            raise KafkaError(earlier)
        try:
            info = partition.append_as_leader(
                data, acks=acks, origin=origin, now_ms=self.runtime.clock.monotonic_ms()
            )
        except OSError as error:
            self.log_manager.dirs.failed(log.data_dir, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        result = ProduceResult(
            ErrorCode.NONE, info.first_offset, info.append_time_ms, log.start_offset
        )
        return result, info.last_offset + 1

    def _refused(self, tp: TopicPartition, error: KafkaError) -> ProduceResult:
        log = self.log(tp)
        rejected = error.record_errors if isinstance(error, RecordsRejected) else []
        start_offset = -1 if log is None else log.start_offset
        return ProduceResult(
            error.code,
            log_start_offset=-1 if error.code in _WITHOUT_LOG_START else start_offset,
            error_message=error.message,
            record_errors=tuple(rejected),
        )

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
        offsets: dict[Readable, int] = {
            self._partitions[tp]: want.fetch_offset
            for tp, want in partitions
            if tp in self._partitions
        }
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
                for partition in self._partitions.values()
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
                log = self.log(tp) if result.size else None
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
                partition = self._partitions.get(tp)
                if partition is not None:
                    partition.follower_fetched(
                        replica_id, want.fetch_offset, want.log_start_offset, now_ms
                    )


def _with_error(result: ProduceResult, error: ErrorCode) -> ProduceResult:
    if error is ErrorCode.NONE:
        return result
    return ProduceResult(error)
