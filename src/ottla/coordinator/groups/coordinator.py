"""The group coordinator: finds the group, applies the rules, writes what they ask for.

One per broker. Membership is decided in `rebalance.py`, groups are kept in `registry.py`, their
offsets in `offsets.py` and `transactional_offsets.py`. What belongs here is the order of things:
every call checks that this broker coordinates the group, changes it in one go without waiting, and
only then waits for the log or for the other members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import (
    GroupDescription,
    GroupListing,
    LeavingMember,
    MemberDescription,
)
from ottla.coordinator.groups.carrying import OffsetCarrier
from ottla.coordinator.groups.group import (
    UNKNOWN_MEMBER_ID,
    GroupState,
    JoinResult,
    SyncResult,
)
from ottla.coordinator.groups.offsets import GroupOffsets
from ottla.coordinator.groups.registry import GroupRegistry
from ottla.coordinator.groups.switching import OffsetSwitch
from ottla.coordinator.groups.transactional_offsets import TransactionalOffsets
from ottla.coordinator.groups.trashed_offsets import KeptUntil, TrashedOffsets, nothing_is_kept
from ottla.coordinator.groups.uncarried import UncarriedNames
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.errors import ErrorCode
from ottla.runtime import Runtime

Result = TypeVar("Result")


class GroupCoordinator:
    """Members join, sync, send heartbeats and leave; groups are described, listed and deleted."""

    def __init__(
        self,
        runtime: Runtime,
        config: CoordinatorConfig,
        replica_manager: CoordinatorReplicas,
        metadata_cache: ClusterMetadata,
        kept_until: KeptUntil = nothing_is_kept,
    ) -> None:
        self._random = runtime.random
        self.registry = GroupRegistry(runtime, config, replica_manager, metadata_cache)
        trash = TrashedOffsets(self.registry, metadata_cache, runtime.clock, kept_until)
        self.uncarried = UncarriedNames(metadata_cache)
        self.offsets = GroupOffsets(self.registry, config, metadata_cache, trash, self.uncarried)
        self.in_transactions = TransactionalOffsets(
            self.registry, config.integer("offset.metadata.max.bytes")
        )
        self.carrier = OffsetCarrier(self.registry, runtime.clock)
        self.switch = OffsetSwitch(self.registry, metadata_cache, runtime.clock)

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Before the broker takes part in the cluster: leadership is heard of from here on."""
        self.registry.start()
        self.offsets.start()

    async def shutdown(self) -> None:
        """Waiting members are sent to look for another coordinator."""
        await self.registry.close()

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group."""
        return self.registry.shards.partition_for(group_id)

    def new_member_id(self, prefix: str) -> str:
        """The client's or the instance's id and a random UUID."""
        digits = f"{self._random.getrandbits(128):032x}"
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return f"{prefix}-{'-'.join(parts)}"

    # --- membership -----------------------------------------------------------------------

    async def join(self, group_id: str, request: rebalance.JoinRequest) -> JoinResult:
        shard = self.registry.find(group_id)
        if isinstance(shard, ErrorCode):
            return JoinResult(shard, request.member_id)
        settings = self.registry.settings
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
            group = self.registry.create(shard, group_id)
        if request.member_id == UNKNOWN_MEMBER_ID:
            prefix = request.client_id if request.instance_id is None else request.instance_id
            request = request._replace(new_member_id=self.new_member_id(prefix))
        answer: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        rebalance.join(group, request, _resolve(answer))
        self.registry.settle(shard, group)
        return await answer

    async def sync(self, group_id: str, request: rebalance.SyncRequest) -> SyncResult:
        shard = self.registry.find(group_id)
        if isinstance(shard, ErrorCode):
            # The member joined before the fail-over; joining again brings it here (KAFKA-5376).
            is_loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else shard)
        group = shard.entries.get(group_id)
        if group is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        answer: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        rebalance.sync(group, request, _resolve(answer))
        self.registry.settle(shard, group)
        return await answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        shard = self.registry.find(group_id)
        if isinstance(shard, ErrorCode):
            # While loading, sessions are not counted: the member is as good as alive.
            is_loading = shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if is_loading else shard
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = rebalance.heartbeat(group, member_id, instance_id, generation_id)
        self.registry.settle(shard, group)
        return error

    def leave(
        self, group_id: str, leaving: Sequence[LeavingMember]
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """One error for the request, and one per member where that is NONE."""
        shard = self.registry.find(group_id)
        if isinstance(shard, ErrorCode):
            return shard, []
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        errors = [rebalance.leave(group, *member) for member in leaving]
        self.registry.settle(shard, group)
        return ErrorCode.NONE, errors

    # --- looking at groups and deleting them ------------------------------------------------

    def describe(self, group_id: str) -> GroupDescription:
        shard = self.registry.find(group_id, allow_empty=True)
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
        if not self.registry.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        wanted = {state.lower() for state in states}
        listed = [
            GroupListing(group.group_id, group.protocol_type or "", group.state.value)
            for shard in self.registry.shards.loaded()
            for group in shard.entries.values()
            if not wanted or group.state.value.lower() in wanted
        ]
        if self.registry.shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, listed
        return ErrorCode.NONE, listed

    async def delete_groups(self, group_ids: Collection[str]) -> dict[str, ErrorCode]:
        return {group_id: await self._delete_group(group_id) for group_id in group_ids}

    async def _delete_group(self, group_id: str) -> ErrorCode:
        shard = self.registry.find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.entries.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.registry.drop(shard, group)
        return await self.offsets.remove(shard, group, group.offsets.all_partitions())


def _resolve(answer: asyncio.Future[Result]) -> Callable[[Result], None]:
    """A callback for an answer whose caller may have hung up meanwhile."""

    def reply(result: Result) -> None:
        if not answer.done():
            answer.set_result(result)

    return reply
