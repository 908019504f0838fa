"""The group coordinator: finds the group, applies the rules, writes what they ask for.

One per broker. Membership is decided in `rebalance.py`, offsets in `offset_table.py`; the log, loading
and unloading are in `shards.py`. What belongs here is the order of things: every call checks that
this broker coordinates the group, changes it in one go without waiting, and only then waits for
the log or for the other members.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from math import inf
from typing import TypeVar

from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import (
    GROUP_WRITE_ERRORS,
    OFFSET_WRITE_ERRORS,
    Committer,
    FetchedOffset,
    GroupDescription,
    GroupListing,
    LeavingMember,
    MemberDescription,
)
from ottla.coordinator.groups.group import (
    CONSUMER_PROTOCOL_TYPE,
    UNKNOWN_MEMBER_ID,
    Group,
    GroupSettings,
    GroupState,
    GroupWrite,
    JoinResult,
    SyncResult,
)
from ottla.coordinator.groups.offset_table import within_limit
from ottla.coordinator.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    offset_entries,
)
from ottla.coordinator.groups.replay import Replay
from ottla.coordinator.groups.transactional_offsets import TransactionalOffsets
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.shards import Shard, Shards, ShardSettings
from ottla.errors import ErrorCode
from ottla.runtime import Runtime
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_MINUTE_MS = 60_000
# Tombstones of one clean-up go into batches of at most this many records.
_TOMBSTONES_PER_BATCH = 500


class GroupCoordinator:
    def __init__(
        self,
        runtime: Runtime,
        config: CoordinatorConfig,
        replica_manager: CoordinatorReplicas,
        metadata_cache: ClusterMetadata,
    ) -> None:
        self._runtime = runtime
        self._replicas = replica_manager
        self._metadata = metadata_cache
        self.settings = GroupSettings(
            config.integer("group.min.session.timeout.ms"),
            config.integer("group.max.session.timeout.ms"),
            config.integer("group.initial.rebalance.delay.ms"),
            config.integer("group.max.size"),
        )
        self._max_metadata = config.integer("offset.metadata.max.bytes")
        self._retention_ms = config.integer("offsets.retention.minutes") * _MINUTE_MS
        self._check_interval_ms = config.integer("offsets.retention.check.interval.ms")
        self._shards = Shards[Group](
            runtime.clock,
            ShardSettings(
                OFFSETS_TOPIC,
                config.integer("offsets.topic.num.partitions"),
                config.integer("offsets.commit.required.acks"),
                config.integer("offsets.commit.timeout.ms"),
                config.integer("offsets.load.buffer.size"),
            ),
            replica_manager,
            metadata_cache,
            new_replay=lambda: Replay(runtime.clock, self.settings),
            on_loaded=self._loaded,
            on_unloaded=self._unloaded,
        )
        self.in_transactions = TransactionalOffsets(
            self._shards, self._find, self._create, self._max_metadata
        )
        self.deadlines = Deadlines(runtime.clock, self._wake)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_active = False

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Before the broker takes part in the cluster: leadership is heard of from here on."""
        self._is_active = True
        self._replicas.add_leadership_listener(self._shards.became_leader, self._shards.resigned)
        self._metadata.add_listener(self._topics_changed)
        self._spawn(self._expire_regularly())

    async def shutdown(self) -> None:
        """Waiting members are sent to look for another coordinator."""
        self._is_active = False
        await self._shards.close()
        self.deadlines.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return self._shards.partition_for(group_id)

    def new_member_id(self, prefix: str) -> str:
        """The client's or the instance's id and a random UUID."""
        digits = f"{self._runtime.random.getrandbits(128):032x}"
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return f"{prefix}-{'-'.join(parts)}"

    # --- membership -----------------------------------------------------------------------

    async def join(self, group_id: str, request: rebalance.JoinRequest) -> JoinResult:
        shard = self._find(group_id)
        if isinstance(shard, ErrorCode):
            return JoinResult(shard, request.member_id)
        settings = self.settings
        if not (
            settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            return JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        group = shard.entries.get(group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            group = self._create(shard, group_id)
        if request.member_id == UNKNOWN_MEMBER_ID:
            prefix = request.client_id if request.instance_id is None else request.instance_id
            request = request._replace(new_member_id=self.new_member_id(prefix))
        answer: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        rebalance.join(group, request, _resolve(answer))
        self._settle(shard, group)
        return await answer

    async def sync(self, group_id: str, request: rebalance.SyncRequest) -> SyncResult:
        shard = self._find(group_id)
        if isinstance(shard, ErrorCode):
            # The member joined before the fail-over; joining again brings it here (KAFKA-5376).
            is_loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else shard)
        group = shard.entries.get(group_id)
        if group is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        answer: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        rebalance.sync(group, request, _resolve(answer))
        self._settle(shard, group)
        return await answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        shard = self._find(group_id)
        if isinstance(shard, ErrorCode):
            # While loading, sessions are not counted: the member is as good as alive.
            is_loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if is_loading else shard
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = rebalance.heartbeat(group, member_id, instance_id, generation_id)
        self._settle(shard, group)
        return error

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember]
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """One error for the request, and one per member where that is NONE."""
        shard = self._find(group_id)
        if isinstance(shard, ErrorCode):
            return shard, []
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        errors = [rebalance.leave(group, *member) for member in leaving]
        self._settle(shard, group)
        return ErrorCode.NONE, errors

    # --- offsets --------------------------------------------------------------------------

    async def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, ErrorCode]:
        shard = self._find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(commits, shard)
        group = shard.entries.get(group_id)
        if group is None:
            if committer.generation_id >= 0:
                return dict.fromkeys(commits, ErrorCode.ILLEGAL_GENERATION)
            group = self._create(shard, group_id)
        error = self._check_committer(group, committer)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        accepted = within_limit(commits, self._max_metadata)
        results = dict.fromkeys(commits, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if accepted:
            stored = await self._store_offsets(shard, group, accepted)
            results.update(dict.fromkeys(accepted, stored))
        return results

    def _check_committer(self, group: Group, committer: Committer) -> ErrorCode:
        member_id, generation_id = committer.member_id, committer.generation_id
        if group.is_fenced(member_id, committer.instance_id):
            return ErrorCode.FENCED_INSTANCE_ID
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE  # the group uses Kafka to keep offsets only
        error = rebalance.check_member(group, member_id, committer.instance_id, generation_id)
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if error is ErrorCode.NONE:
            group.keep_alive(group.members[member_id])
        return error

    async def _store_offsets(
        self, shard: Shard[Group], group: Group, commits: dict[TopicPartition, CommittedOffset]
    ) -> ErrorCode:
        group.offsets.begin(commits)
        appended_at = None
        try:
            error, base_offset = await self._shards.append(
                shard, offset_entries(group.group_id, commits)
            )
            appended_at = base_offset if error is ErrorCode.NONE else None
        finally:
            group.offsets.finish(commits, appended_at)
        return OFFSET_WRITE_ERRORS.get(error, error)

    def fetch(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        *,
        require_stable: bool = False,
    ) -> tuple[ErrorCode, dict[TopicPartition, FetchedOffset]]:
        """`partitions` None asks for all that the group has committed."""
        shard = self._find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return shard, {}
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.NONE, dict.fromkeys(
                partitions or (), FetchedOffset(ErrorCode.NONE, None)
            )
        offsets = group.offsets
        found = {}
        for tp in offsets.committed if partitions is None else partitions:
            if require_stable and offsets.is_unstable(tp):
                found[tp] = FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT, None)
            else:
                found[tp] = FetchedOffset(ErrorCode.NONE, offsets.committed.get(tp))
        return ErrorCode.NONE, found

    async def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        shard = self._find(group_id)
        if isinstance(shard, ErrorCode):
            return shard, {}
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        results = dict.fromkeys(partitions, ErrorCode.NONE)
        if group.state is not GroupState.EMPTY:
            if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                return ErrorCode.NON_EMPTY_GROUP, {}
            for tp in partitions:
                if group.is_subscribed(tp.topic):
                    results[tp] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        deletable = [tp for tp, error in results.items() if error is ErrorCode.NONE]
        await self._remove(shard, group, deletable)
        return ErrorCode.NONE, results

    # --- looking at groups and deleting them ------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        shard = self._find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return GroupDescription(shard)
        group = shard.entries.get(group_id)
        if group is None:
            return GroupDescription(ErrorCode.NONE, GroupState.DEAD.value)
        # Before the group is stable there is no protocol to show metadata and assignments of.
        is_stable = group.state is GroupState.STABLE
        protocol = group.protocol_name if is_stable else None
        return GroupDescription(
            ErrorCode.NONE,
            group.state.value,
            group.protocol_type or "",
            protocol or "",
            tuple(
                MemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(protocol) if is_stable else b"",
                    member.assignment if is_stable else b"",
                )
                for member in group.members.values()
            ),
        )

    def list_groups(self, states: Collection[str] = ()) -> tuple[ErrorCode, list[GroupListing]]:
        """All groups coordinated here, or those in one of `states` (any case)."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted = {state.lower() for state in states}
        listed = [
            GroupListing(group.group_id, group.protocol_type or "", group.state.value)
            for shard in self._shards.loaded()
            for group in shard.entries.values()
            if not wanted or group.state.value.lower() in wanted
        ]
        if self._shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, listed
        return ErrorCode.NONE, listed

    async def delete_groups(self, group_ids: Collection[str]) -> dict[str, ErrorCode]:
        return {group_id: await self._delete_group(group_id) for group_id in group_ids}

    async def _delete_group(self, group_id: str) -> ErrorCode:
        shard = self._find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._drop(shard, group)
        return await self._remove(shard, group, group.offsets.all_partitions())

    # --- expiry ---------------------------------------------------------------------------

    async def _expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> int:
        """Removes what is past its retention and groups that have nothing left (KIP-211)."""
        count = 0
        for shard in self._shards.loaded():
            for group in list(shard.entries.values()):
                if shard.entries.get(group.group_id) is not group:
                    continue  # deleted while the tombstones of another were written
                expired = group.expired_offsets(self._retention_ms)
                count += len(expired)
                await self._remove(shard, group, expired)
        return count

    async def _remove(
        self, shard: Shard[Group], group: Group, partitions: Collection[TopicPartition]
    ) -> ErrorCode:
        """Forgets offsets, and the group with them if nothing is left; tombstones follow."""
        removed = group.offsets.remove(partitions)
        is_idle = group.state is GroupState.EMPTY and not group.pending_members
        if is_idle and group.offsets.is_empty:
            self._drop(shard, group)
        entries: list[tuple[bytes, bytes | None]] = [
            (encode_offset_key(group.group_id, tp), None) for tp in removed
        ]
        if group.state is GroupState.DEAD and group.generation_id > 0:
            entries.append((encode_group_key(group.group_id), None))
        for start in range(0, len(entries), _TOMBSTONES_PER_BATCH):
            error, _ = await self._shards.append(
                shard, entries[start : start + _TOMBSTONES_PER_BATCH]
            )
            if error is not ErrorCode.NONE:
                log.warning("Tombstones of group %s failed: %s", group.group_id, error.name)
                return OFFSET_WRITE_ERRORS.get(error, error)
        return ErrorCode.NONE

    def _topics_changed(self, named: frozenset[str]) -> None:
        """Offsets of a deleted topic go at once: its name may come back with other records."""
        gone = {name for name in named if not self._metadata.contains_topic(name)}
        if gone:
            self._spawn(self._remove_topics(gone))

    async def _remove_topics(self, topics: Collection[str]) -> None:
        for shard in self._shards.loaded():
            for group in list(shard.entries.values()):
                found = [tp for tp in group.offsets.all_partitions() if tp.topic in topics]
                if found and shard.entries.get(group.group_id) is group:
                    await self._remove(shard, group, found)

    # --- inside ---------------------------------------------------------------------------

    def _find(self, group_id: str, *, allow_empty: bool = False) -> Shard[Group] | ErrorCode:
        """The gate of every request (validateGroupStatus)."""
        if not group_id and not allow_empty:
            return ErrorCode.INVALID_GROUP_ID
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._shards.find(group_id)

    def _create(self, shard: Shard[Group], group_id: str) -> Group:
        group = Group(group_id, self._runtime.clock, self.settings)
        shard.entries[group_id] = group
        return group

    def _drop(self, shard: Shard[Group], group: Group) -> None:
        shard.entries.pop(group.group_id, None)
        self.deadlines.forget(group.group_id)
        rebalance.close(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _settle(self, shard: Shard[Group], group: Group) -> None:
        """After every change: does what fell due, writes what is to be written, sets the timer."""
        if group.wake_at <= group.now():
            rebalance.expire(group)
        if group.writes:
            writes, group.writes = group.writes, []
            for write in writes:
                self._spawn(self._write_group(shard, group, write))
        if group.wake_at < inf:
            self.deadlines.schedule(group.group_id, group.wake_at)

    async def _write_group(self, shard: Shard[Group], group: Group, write: GroupWrite) -> None:
        entry = (encode_group_key(group.group_id), encode_group_value(write.value))
        error, _ = await self._shards.append(shard, [entry])
        write.written(GROUP_WRITE_ERRORS.get(error, error))
        if group.state is not GroupState.DEAD:
            self._settle(shard, group)

    def _wake(self, group_id: str) -> None:
        shard = self._shards.find(group_id)
        group = None if isinstance(shard, ErrorCode) else shard.entries.get(group_id)
        if group is not None and not isinstance(shard, ErrorCode):
            self._settle(shard, group)

    def _loaded(self, shard: Shard[Group]) -> None:
        for group in shard.entries.values():
            rebalance.start_sessions(group)
            self._settle(shard, group)

    def _unloaded(self, shard: Shard[Group]) -> None:
        for group in shard.entries.values():
            self.deadlines.forget(group.group_id)
            rebalance.close(group, ErrorCode.NOT_COORDINATOR)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Work of the group coordinator failed", exc_info=error)


def _resolve(answer: asyncio.Future[Result]) -> Callable[[Result], None]:
    """A callback for an answer whose caller may have hung up meanwhile."""

    def reply(result: Result) -> None:
        if not answer.done():
            answer.set_result(result)

    return reply
