"""The offsets that groups commit: stored, shown, deleted, and expired in their time (KIP-211)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import OFFSET_WRITE_ERRORS, Committer, FetchedOffset
from ottla.coordinator.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from ottla.coordinator.groups.offset_table import within_limit
from ottla.coordinator.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_offset_key,
    offset_entries,
)
from ottla.coordinator.groups.registry import GroupRegistry
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000
# Tombstones of one clean-up go into batches of at most this many records.
_TOMBSTONES_PER_BATCH = 500


class GroupOffsets:
    """The group coordinator's part of offsets outside transactions."""

    def __init__(
        self, registry: GroupRegistry, config: CoordinatorConfig, metadata: ClusterMetadata
    ) -> None:
        self._registry = registry
        self._metadata = metadata
        self._max_metadata = config.integer("offset.metadata.max.bytes")
        self._retention_ms = config.integer("offsets.retention.minutes") * _MINUTE_MS
        self._check_interval_ms = config.integer("offsets.retention.check.interval.ms")

    def start(self) -> None:
        """From here on offsets go when their time or their topic is over."""
        self._metadata.add_listener(self._topics_changed)
        self._registry.spawn(self._expire_regularly())

    async def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, ErrorCode]:
        shard = self._registry.find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(commits, shard)
        group = shard.entries.get(group_id)
        if group is None:
            if committer.generation_id >= 0:
                return dict.fromkeys(commits, ErrorCode.ILLEGAL_GENERATION)
            group = self._registry.create(shard, group_id)
        error = _check_committer(group, committer)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        accepted = within_limit(commits, self._max_metadata)
        results = dict.fromkeys(commits, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if accepted:
            stored = await self._store(shard, group, accepted)
            results.update(dict.fromkeys(accepted, stored))
        return results

    async def _store(
        self, shard: Shard[Group], group: Group, commits: dict[TopicPartition, CommittedOffset]
    ) -> ErrorCode:
        group.offsets.begin(commits)
        appended_at = None
        try:
            error, base_offset = await self._registry.shards.append(
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
        shard = self._registry.find(group_id, allow_empty=True)
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

    async def delete(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        shard = self._registry.find(group_id)
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
        await self.remove(shard, group, deletable)
        return ErrorCode.NONE, results

    async def expire(self) -> int:
        """Removes what is past its retention and groups that have nothing left (KIP-211)."""
        count = 0
        for shard in self._registry.shards.loaded():
            for group in list(shard.entries.values()):
                if shard.entries.get(group.group_id) is not group:
                    continue  # deleted while the tombstones of another were written
                expired = group.expired_offsets(self._retention_ms)
                count += len(expired)
                await self.remove(shard, group, expired)
        return count

    async def remove(
        self, shard: Shard[Group], group: Group, partitions: Collection[TopicPartition]
    ) -> ErrorCode:
        """Forgets offsets, and the group with them if nothing is left; tombstones follow."""
        removed = group.offsets.remove(partitions)
        is_idle = group.state is GroupState.EMPTY and not group.pending_members
        if is_idle and group.offsets.is_empty:
            self._registry.drop(shard, group)
        entries: list[tuple[bytes, bytes | None]] = [
            (encode_offset_key(group.group_id, tp), None) for tp in removed
        ]
        if group.state is GroupState.DEAD and group.generation_id > 0:
            entries.append((encode_group_key(group.group_id), None))
        for start in range(0, len(entries), _TOMBSTONES_PER_BATCH):
            error, _ = await self._registry.shards.append(
                shard, entries[start : start + _TOMBSTONES_PER_BATCH]
            )
            if error is not ErrorCode.NONE:
                logger.warning("Tombstones of group %s failed: %s", group.group_id, error.name)
                return OFFSET_WRITE_ERRORS.get(error, error)
        return ErrorCode.NONE

    def _topics_changed(self, named: frozenset[str]) -> None:
        """Offsets of a deleted topic go at once: its name may come back with other records."""
        gone = {name for name in named if not self._metadata.contains_topic(name)}
        if gone:
            self._registry.spawn(self._remove_topics(gone))

    async def _remove_topics(self, topics: Collection[str]) -> None:
        for shard in self._registry.shards.loaded():
            for group in list(shard.entries.values()):
                found = [tp for tp in group.offsets.all_partitions() if tp.topic in topics]
                if found and shard.entries.get(group.group_id) is group:
                    await self.remove(shard, group, found)

    async def _expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_ms / 1000)
            await self.expire()


def _check_committer(group: Group, committer: Committer) -> ErrorCode:
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
