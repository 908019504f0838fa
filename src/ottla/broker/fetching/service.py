"""Fetches of consumers and followers on this broker, with a session and without
(ReplicaManager.fetchMessages).

A fetch in a session looks only at the partitions that can have something new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.fetching.params import FetchParams
from ottla.broker.fetching.preferred_replica import ReplicaSelector
from ottla.broker.fetching.reads import Reader, Wanted, is_answer, is_at_end
from ottla.broker.fetching.sessions import FetchSession, FetchSessions, Results, SessionEntry
from ottla.broker.fetching.waits import FetchWait, Readable
from ottla.broker.replication.fetch_protocol import FetchResult
from ottla.errors import ErrorCode
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.quotas.throttles import ReplicationThrottles
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.broker.replication.timeouts import Timeouts
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Runtime


class FetchService:
    """Reads partitions, waits for them to have something, and tells leaders what followers have;
    `sessions` are the incremental ones."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        partitions: HostedPartitions,
        metadata_cache: MetadataCache,
        throttles: ReplicationThrottles,
        timeouts: Timeouts,
    ) -> None:
        self._clock = runtime.clock
        self._partitions = partitions
        self._throttles = throttles
        self._timeouts = timeouts
        selector = ReplicaSelector(config, metadata_cache, runtime.clock)
        self._reader = Reader(partitions, throttles, selector)
        self.sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"), runtime.random
        )
        # Bytes of records since the broker started, for those who look at it.
        self.sent_bytes = 0
        self.sent_to_followers_bytes = 0

    async def fetch(
        self, params: FetchParams, wanted: Sequence[Wanted]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """Reads, and waits up to `max_wait_ms` where fewer than `min_bytes` are there."""
        results = self._reader.read_all(params, wanted)
        if params.is_follower:
            self._note_follower(params.replica_id, wanted, results)
        if params.max_wait_ms <= 0 or not wanted or is_answer(params, results):
            return results
        if self._reader.is_behind(params, wanted, results):
            return results
        offsets: dict[Readable, int] = {}
        for tp, want in wanted:
            partition = self._partitions.get(tp)
            if partition is not None:
                offsets[partition] = want.fetch_offset
        results = [(tp, _without_records(result)) for tp, result in results]
        wait = self._new_wait(params, offsets)
        try:
            await wait.future
        finally:
            wait.detach()
        return self._reader.read_again(params, wanted, results)

    async def fetch_in_session(
        self, params: FetchParams, session: FetchSession, entries: Sequence[SessionEntry]
    ) -> Results:
        """Reads `entries`, and waits for any partition of the session where that is not enough.
        Dirty entries that are not among them were refused before."""
        refused = session.dirty.keys() - set(entries)
        results = self._read_in_session(params, session, entries)
        wanted = [(entry.tp, entry.want) for entry in entries]
        found = [(entry.tp, result) for entry, result in results]
        if params.is_follower:
            self._note_follower(params.replica_id, wanted, found)
            self._note_idle(params.replica_id, session, results)
        if params.max_wait_ms <= 0 or is_answer(params, found):
            return results
        if self._reader.is_behind(params, wanted, found):
            return results
        offsets: dict[Readable, int] = {}
        for entry, _ in results:
            partition = self._partitions.get(entry.tp)
            if partition is not None and entry in session.dirty:
                offsets[partition] = entry.want.fetch_offset
        # Those with records are dirty still, and read again.
        results = [(entry, _without_records(result)) for entry, result in results]
        del found
        wait = session.wait = self._new_wait(params, offsets)
        try:
            await wait.future
        finally:
            wait.detach()
            if session.wait is wait:
                session.wait = None
        again = [entry for entry in session.dirty if entry not in refused]
        fresh = self._read_in_session(params, session, again)
        read_twice = {entry for entry, _ in fresh}
        return [(entry, result) for entry, result in results if entry not in read_twice] + fresh

    def count_sent(
        self, results: Sequence[tuple[SessionEntry, FetchResult]], *, is_follower: bool
    ) -> None:
        """What somebody gets in an answer."""
        size = sum([result.size for _, result in results])
        if not is_follower:
            self.sent_bytes += size
            return
        self.sent_to_followers_bytes += size
        if size and self._throttles.leader.is_on:
            for entry, result in results:
                log = self._partitions.log(entry.tp) if result.size else None
                if log is not None:
                    self._throttles.sent(log, result.size)

    def _read_in_session(
        self, params: FetchParams, session: FetchSession, entries: Sequence[SessionEntry]
    ) -> Results:
        read = self._reader.read_all(params, [(entry.tp, entry.want) for entry in entries])
        results: Results = []
        for entry, (_, result) in zip(entries, read, strict=True):
            results.append((entry, result))
            partition = self._partitions.get(entry.tp)
            if partition is None:
                continue
            entry.watch(partition)
            # A follower that is not in the ISR is looked at until it is: the leader may not have
            # asked for it yet (one change at a time), or in vain.
            is_waiting = params.is_follower and params.replica_id not in partition.in_sync.members
            if is_at_end(params, partition, entry.want, result) and not is_waiting:
                session.dirty.pop(entry, None)
        return results

    def _new_wait(self, params: FetchParams, offsets: dict[Readable, int]) -> FetchWait:
        held_back: set[Readable] = set()
        if params.is_follower and self._throttles.leader.is_on:
            held_back = {
                partition
                for partition in self._partitions
                if partition.is_leader
                and self._throttles.holds_back(
                    partition.log, params.replica_id, partition.in_sync.members
                )
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

    # --- followers --------------------------------------------------------------------------

    def _note_follower(
        self,
        replica_id: int,
        wanted: Sequence[Wanted],
        results: list[tuple[TopicPartition, FetchResult]],
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        for (tp, want), (_, result) in zip(wanted, results, strict=True):
            if result.error is ErrorCode.NONE and result.diverging_epoch is None:
                partition = self._partitions.get(tp)
                if partition is not None:
                    partition.follower_fetched(
                        replica_id, want.fetch_offset, want.log_start_offset, now_ms
                    )

    def _note_idle(self, replica_id: int, session: FetchSession, results: Results) -> None:
        """Followers that have everything: the session's next requests speak for them."""
        for entry, _ in results:
            if entry not in session.dirty:
                partition = self._partitions.get(entry.tp)
                remote = None if partition is None else partition.remotes.get(replica_id)
                if remote is not None:
                    remote.session = session


def _without_records(result: FetchResult) -> FetchResult:
    """What a fetch that waits keeps of a result: its records are read again in any case, and some
    thousand waits would otherwise hold as many half answers."""
    return result._replace(records=None) if result.records else result
