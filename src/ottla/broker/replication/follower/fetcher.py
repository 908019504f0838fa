"""Followers' fetching: one task and one connection per leader broker (ReplicaFetcherThread).

Fetch v12 with an incremental session; divergence comes with the answer (truncation on fetch, IBP
2.7 and later), so OffsetForLeaderEpoch is not asked. One task per leader whatever
`num.replica.fetchers` says: there is one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ottla.broker.replication.fetch_protocol import FINAL_EPOCH, NO_SESSION, FetchPartition
from ottla.broker.replication.follower.fetch_plan import FollowerSession, Plan
from ottla.broker.replication.follower.requests import (
    FETCH_VERSION,
    LIST_OFFSETS_VERSION,
    FetchLimits,
    fetch_request,
    list_offsets_request,
)
from ottla.broker.replication.follower.truncation import start_at_batch, truncation_offset
from ottla.broker.replication.partition import Partition
from ottla.client.connection import Connection
from ottla.errors import ErrorCode, KafkaError
from ottla.security.setup import peer_credentials
from ottla.storage.log.log import Log
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.quotas.throttles import ReplicationThrottles
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Runtime
    from ottla.storage.manager.log_manager import LogManager

logger = logging.getLogger(__name__)
_LATEST, _EARLIEST = -1, -2
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class _Follow:
    """One partition that is being fetched."""

    __slots__ = ("is_behind", "lag", "leader_epoch", "log", "partition", "retry_at_ms")

    def __init__(self, partition: Partition, log: Log) -> None:
        self.partition = partition
        self.log = log
        self.leader_epoch = partition.leader_epoch
        self.retry_at_ms = 0.0
        # Only replicas that have not caught up are throttled.
        self.is_behind = True
        self.lag = 0

    @property
    def is_current(self) -> bool:
        """Whether the partition still follows in the epoch that this state was made for."""
        partition = self.partition
        return (
            partition.log is self.log
            and not partition.is_leader
            and partition.leader_epoch == self.leader_epoch
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all fetchers of a broker share."""

    runtime: Runtime
    config: BrokerConfig
    broker_id: int
    metadata_cache: MetadataCache
    log_manager: LogManager
    throttles: ReplicationThrottles


class LeaderFetcher:
    """Fetches all partitions that one broker leads.

    A loop of requests on one connection, in one incremental session. Partitions that are added
    while a request is under way have a second connection until it returns.
    """

    def __init__(self, shared: Surroundings, leader: int) -> None:
        self._broker_id = shared.broker_id
        self._runtime = shared.runtime
        self._config = config = shared.config
        self._metadata_cache = shared.metadata_cache
        self._log_manager = shared.log_manager
        self._throttles = shared.throttles
        self._leader = leader
        self._limits = FetchLimits(
            config.integer("replica.fetch.wait.max.ms"),
            config.integer("replica.fetch.min.bytes"),
            config.integer("replica.fetch.response.max.bytes"),
            config.integer("replica.fetch.max.bytes"),
        )
        self._backoff_ms = config.integer("replica.fetch.backoff.ms")
        self._timeout_ms = config.integer("replica.socket.timeout.ms")
        self._follows: dict[TopicPartition, _Follow] = {}
        # What the next request may have to say something new of; the rest is not looked at.
        self._dirty: dict[TopicPartition, None] = {}
        self._session = FollowerSession()
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Added while a request is under way that does not name them.
        self._newcomers: dict[TopicPartition, _Follow] = {}
        self._newcomers_task: asyncio.Task[None] | None = None
        self._polling = False
        self.taken_bytes = 0

    @property
    def max_lag(self) -> int:
        return max((follow.lag for follow in self._follows.values()), default=0)

    def __len__(self) -> int:
        return len(self._follows)

    def add(self, partitions: Iterable[tuple[Partition, Log]]) -> None:
        loop = asyncio.get_running_loop()
        for partition, log in partitions:
            follow = self._follows[partition.tp] = _Follow(partition, log)
            self._dirty[partition.tp] = None
            if self._polling:
                self._newcomers[partition.tp] = follow
        self._changed.set()
        if self._task is None:
            self._task = loop.create_task(self._run())
        elif self._newcomers:
            self._stop_newcomers_task()
            self._newcomers_task = loop.create_task(self._fetch_newcomers())

    def remove(self, tp: TopicPartition) -> None:
        self._follows.pop(tp, None)
        self._newcomers.pop(tp, None)
        self._dirty[tp] = None

    async def stop(self) -> None:
        self._follows.clear()
        self._newcomers.clear()
        self._stop_newcomers_task()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._disconnect("stopped")

    # --- the loop ---------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._newcomers.clear()
            self._stop_newcomers_task()
            plan = self._next_plan()
            if plan is None:
                await self._idle()
                continue
            self._polling = True
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await self._connect()
                response = await self._fetch(self._connection, plan)
                await self._take(response)
            except (OSError, TimeoutError, WireError) as error:
                logger.info("fetch from broker %d failed: %s", self._leader, error)
                await self._start_over(str(error))
            except Exception:
                # Whatever it is, replication must not end with it.
                logger.exception("fetch from broker %d failed", self._leader)
                await self._start_over("unexpected failure")
            finally:
                self._polling = False

    def _next_plan(self) -> Plan | None:
        """What the next request says; None where there is nothing to fetch."""
        session = self._session
        dirty, self._dirty = self._dirty, {}
        if session.starts_over:
            wanted = self._wanted(self._follows)
            return session.full_plan(wanted) if wanted else None
        follows = self._follows
        wanted = self._wanted({tp: follows[tp] for tp in dirty if tp in follows})
        plan = session.plan(wanted, [tp for tp in dirty if tp not in wanted])
        if session.told:
            return plan
        session.failed()
        return None

    async def _start_over(self, reason: str) -> None:
        self._disconnect(reason)
        await asyncio.sleep(self._backoff_ms / 1000)

    async def _fetch_newcomers(self) -> None:
        """New partitions would have to wait until the request under way returns, and producers
        with acks=all along with them: until then they have a connection of their own."""
        connection: Connection | None = None
        try:
            connection = await self._connect()
            while wanted := self._wanted(self._newcomers):
                plan = Plan(NO_SESSION, FINAL_EPOCH, wanted, [])
                response = await self._fetch(connection, plan)
                if response.error_code != ErrorCode.NONE:
                    return
                self._take_partitions(response, wanted)
        except (OSError, TimeoutError, WireError) as error:
            # They are part of the next request of the main loop anyway.
            logger.info("first fetch from broker %d failed: %s", self._leader, error)
        finally:
            if connection is not None:
                connection.close("newcomers are fetched with the others now")

    def _stop_newcomers_task(self) -> None:
        if self._newcomers_task is not None:
            self._newcomers_task.cancel()
            self._newcomers_task = None

    async def _idle(self) -> None:
        """Nothing to fetch now: until a partition is added or a pause ends."""
        self._changed.clear()
        if not self._follows:
            self._disconnect("nothing left to fetch")
        try:
            async with asyncio.timeout(self._backoff_ms / 1000 if self._follows else None):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _wanted(
        self, follows: dict[TopicPartition, _Follow]
    ) -> dict[TopicPartition, FetchPartition]:
        """Without those that pause or are throttled: the next request looks at them again."""
        now_ms = self._runtime.clock.monotonic_ms()
        wanted: dict[TopicPartition, FetchPartition] = {}
        for tp, follow in list(follows.items()):
            log = follow.log
            if not follow.is_current:
                self._follows.pop(tp, None)
                self._newcomers.pop(tp, None)
            elif follow.retry_at_ms > now_ms or (
                follow.is_behind and self._throttles.must_pause(log)
            ):
                self._dirty[tp] = None
            else:
                wanted[tp] = FetchPartition(
                    log.end_offset,
                    self._limits.partition_max_bytes,
                    log.start_offset,
                    follow.leader_epoch,
                    log.epochs.latest,
                )
        return wanted

    async def _connect(self) -> Connection:
        listener = self._config.inter_broker_listener
        endpoint = self._metadata_cache.endpoint(self._leader, listener)
        if endpoint is None:
            raise ConnectionError(f"broker {self._leader} is not alive")
        return await Connection.open(
            self._runtime.network,
            endpoint.host,
            endpoint.port,
            client_id=f"broker-{self._broker_id}-fetcher-0",
            timeout_ms=self._timeout_ms,
            sasl=peer_credentials(self._config, listener),
        )

    async def _fetch(self, connection: Connection, plan: Plan) -> m.FetchResponse:
        request = fetch_request(self._broker_id, plan, self._limits)
        timeout_ms = self._timeout_ms + self._limits.max_wait_ms
        response = await connection.send(request, FETCH_VERSION, timeout_ms=timeout_ms)
        return cast("m.FetchResponse", response)

    def _disconnect(self, reason: str) -> None:
        self._session.failed()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(reason)

    # --- answers ----------------------------------------------------------------------------

    async def _take(self, response: m.FetchResponse) -> None:
        if response.error_code in _SESSION_ERRORS:
            self._session.failed()
            return
        if response.error_code != ErrorCode.NONE:
            raise ConnectionError(f"fetch was refused with code {response.error_code}")
        self._session.answered(response.session_id)
        for follow in self._take_partitions(response, self._session.told):
            await self._find_place(follow)

    def _take_partitions(
        self, response: m.FetchResponse, told: Mapping[TopicPartition, FetchPartition]
    ) -> list[_Follow]:
        """Takes what fits what was asked (`told`); returns partitions that are out of range."""
        out_of_range: list[_Follow] = []
        for topic in response.responses:
            for data in topic.partitions:
                tp = TopicPartition(topic.topic, data.partition_index)
                self._dirty[tp] = None
                follow = self._follows.get(tp)
                want = told.get(tp)
                if follow is None or want is None or not follow.is_current:
                    continue
                asked = (want.fetch_offset, want.current_leader_epoch)
                if asked != (follow.log.end_offset, follow.leader_epoch):
                    continue  # the log moved meanwhile; the answer is for another place
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(follow)
                else:
                    self._take_partition(tp, follow, data)
        return out_of_range

    def _take_partition(
        self, tp: TopicPartition, follow: _Follow, data: m.FetchResponse.PartitionData
    ) -> None:
        if data.error_code != ErrorCode.NONE:
            self._take_error(tp, follow, data.error_code)
            return
        log = follow.log
        try:
            if data.diverging_epoch.epoch >= 0:
                offset = truncation_offset(
                    log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                )
                logger.info("%s: truncated from %d to %d", tp, log.end_offset, offset)
                self._log_manager.removals.add_files(log, log.truncate_to(offset))
                return
            if data.records is not None and len(data.records):
                removed = start_at_batch(log, data.records)
                self._log_manager.removals.add_files(log, removed)
                log.append_as_follower(data.records)
                self._throttles.fetched(log, len(data.records))
                self.taken_bytes += len(data.records)
            follow.lag = max(0, data.high_watermark - log.end_offset)
            follow.is_behind = follow.lag > 0
            moved = log.set_high_watermark(min(data.high_watermark, log.end_offset))
            if data.log_start_offset > log.start_offset:
                log.advance_start_offset(min(data.log_start_offset, log.high_watermark))
            if moved:
                follow.partition.high_watermark_moved()
        except (KafkaError, WireError) as error:
            logger.warning("%s: %s", tp, error)
            self._pause(follow)
        except OSError as error:
            self._log_manager.dirs.failed(log.data_dir, error)

    def _take_error(self, tp: TopicPartition, follow: _Follow, code: int) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            # The leader is ahead of us; the LeaderAndIsr with its epoch starts this again.
            logger.info("%s: fenced in epoch %d, waits for LeaderAndIsr", tp, follow.leader_epoch)
            self._follows.pop(tp, None)
            return
        logger.info("%s: fetch from broker %d gives error %d", tp, self._leader, code)
        self._pause(follow)

    def _pause(self, follow: _Follow) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        follow.retry_at_ms = now_ms + self._backoff_ms

    async def _find_place(self, follow: _Follow) -> None:
        """Out of range (AbstractFetcherThread.fetchOffsetAndTruncate): ask the leader's bounds."""
        tp, log = follow.partition.tp, follow.log
        leader_end = await self._leader_offset(tp, follow, _LATEST)
        if leader_end is None:
            self._pause(follow)
            return
        remove = self._log_manager.removals.add_files
        if leader_end < log.end_offset:
            # An unclean election: the leader has less than this replica.
            remove(log, log.truncate_to(leader_end))
            return
        leader_start = await self._leader_offset(tp, follow, _EARLIEST)
        if leader_start is None:
            self._pause(follow)
        elif leader_start > log.end_offset:
            remove(log, log.truncate_fully_and_start_at(leader_start))

    async def _leader_offset(
        self, tp: TopicPartition, follow: _Follow, timestamp: int
    ) -> int | None:
        if self._connection is None:
            return None
        request = list_offsets_request(self._broker_id, tp, follow.leader_epoch, timestamp)
        response = cast(
            "m.ListOffsetsResponse",
            await self._connection.send(request, LIST_OFFSETS_VERSION, timeout_ms=self._timeout_ms),
        )
        answer = response.topics[0].partitions[0] if response.topics else None
        if answer is None or answer.error_code != ErrorCode.NONE or not follow.is_current:
            return None
        return answer.offset


class FetcherManager:
    """Which leader each followed partition is fetched from."""

    def __init__(self, shared: Surroundings) -> None:
        self._shared = shared
        # On its way out this broker follows nobody anew: a leader would count it as caught up and
        # wait for it when it is gone.
        self.is_leaving = False
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._by_partition: dict[TopicPartition, LeaderFetcher] = {}

    @property
    def taken_bytes(self) -> int:
        """Bytes of records that were fetched and written."""
        return sum(fetcher.taken_bytes for fetcher in self._fetchers.values())

    @property
    def max_lag(self) -> int:
        """Records that the followed partition furthest behind has yet to fetch."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    def add(self, partitions: Iterable[Partition]) -> None:
        if self.is_leaving:
            return
        added: dict[int, list[tuple[Partition, Log]]] = {}
        for partition in partitions:
            log, leader = partition.log, partition.leader
            if log is None or leader is None:
                continue
            if log.epochs.latest < 0 and log.end_offset > log.high_watermark:
                # Without epochs divergence cannot be found: keep only what is committed.
                removed = log.truncate_to(log.high_watermark)
                self._shared.log_manager.removals.add_files(log, removed)
            added.setdefault(leader, []).append((partition, log))
        for leader, following in added.items():
            fetcher = self._fetchers.get(leader)
            if fetcher is None:
                fetcher = self._fetchers[leader] = LeaderFetcher(self._shared, leader)
            fetcher.add(following)
            for partition, _ in following:
                self._by_partition[partition.tp] = fetcher

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        for tp in tps:
            fetcher = self._by_partition.pop(tp, None)
            if fetcher is not None:
                fetcher.remove(tp)

    async def shutdown(self) -> None:
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._by_partition.clear()
        for fetcher in fetchers:
            await fetcher.stop()
