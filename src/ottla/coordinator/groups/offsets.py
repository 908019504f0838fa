"""The offsets that groups commit: stored, shown, deleted, and expired in their time (KIP-211)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.answers import OFFSET_WRITE_ERRORS, Committer, FetchedOffset
from ottla.coordinator.groups.commit_batches import CommitBatches, Entries, OnEnd
from ottla.coordinator.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from ottla.coordinator.groups.hidden_names import is_hidden
from ottla.coordinator.groups.offset_table import within_limit
from ottla.coordinator.groups.records import (
    CommittedOffset,
    encode_group_key,
    encode_offset_key,
    offset_entries,
)
from ottla.coordinator.groups.registry import Entry, GroupRegistry
from ottla.coordinator.groups.trashed_offsets import TrashedOffsets
from ottla.coordinator.groups.uncarried import UncarriedNames
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from ottla.types import TopicId, TopicPartition

logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000


class GroupOffsets:
    """The group coordinator's part of offsets outside transactions."""

    def __init__(
        self,
        registry: GroupRegistry,
        config: CoordinatorConfig,
        metadata: ClusterMetadata,
        trash: TrashedOffsets,
        uncarried: UncarriedNames,
    ) -> None:
        self._registry = registry
        self._uncarried = uncarried
        self._metadata = metadata
        self._trash = trash
        self._batches = CommitBatches(registry)
        # Topics whose offsets nobody may commit now: they are being resized (ADR 53).
        self.fenced_topics: set[str] = set()
        self.max_metadata = config.integer("offset.metadata.max.bytes")
        self._retention_ms = config.integer("offsets.retention.minutes") * _MINUTE_MS
        self._check_interval_ms = config.integer("offsets.retention.check.interval.ms")

    def start(self) -> None:
        """From here on offsets go when their time or their topic is over."""
        self._metadata.add_listener(self._topics_changed)
        self._trash.start()
        self._registry.spawn(self._expire_regularly())

    async def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, ErrorCode]:
        accepted = within_limit(commits, self.max_metadata)
        ended: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        error = self.begin_commit(
            group_id, committer, accepted, offset_entries(group_id, accepted), _resolve(ended)
        )
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        results = dict.fromkeys(commits, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        if accepted:
            results.update(dict.fromkeys(accepted, await ended))
        return results

    def begin_commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Mapping[TopicPartition, CommittedOffset],
        entries: Entries,
        on_end: OnEnd,
    ) -> ErrorCode:
        """Why the committer may not; otherwise the commits are on their way, and `on_end` is told
        how they ended, unless there are none. `entries` are their records."""
        shard = self._registry.find(group_id, allow_empty=True)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.entries.get(group_id)
        if group is None:
            if committer.generation_id >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            group = self._registry.create(shard, group_id)
        error = _check_committer(group, committer)
        if self._is_closed(commits):
            # What clients try again until their time is up.
            error = error or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error is ErrorCode.NONE and commits:
            self._batches.add(shard, group, commits, entries, on_end)
        return error

    def _is_closed(self, commits: Collection[TopicPartition]) -> bool:
        fenced, ending = self.fenced_topics, self._registry.ending_topics
        if not fenced and not ending:
            return False
        return any(tp.topic in fenced or tp.topic in ending for tp in commits)

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
        if self._uncarried.has_some_of(group, partitions):
            # What clients ask again for until it is there.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {}
        offsets = group.offsets
        found = {}
        ending = self._registry.ending_topics
        for tp in offsets.committed if partitions is None else partitions:
            if is_hidden(tp.topic):
                continue
            if tp.topic in ending:
                # What is there is of a topic that ended.
                if partitions is not None:
                    found[tp] = FetchedOffset(ErrorCode.NONE, None)
                continue
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
        error = await self._registry.append_all(shard, self._forget(shard, group, partitions))
        if error is not ErrorCode.NONE:
            logger.warning("Tombstones of group %s failed: %s", group.group_id, error.name)
        return OFFSET_WRITE_ERRORS.get(error, error)

    def _forget(
        self, shard: Shard[Group], group: Group, partitions: Collection[TopicPartition]
    ) -> list[Entry]:
        """The tombstones that the log has to get before anything else."""
        removed = group.offsets.remove(partitions)
        is_idle = group.state is GroupState.EMPTY and not group.pending_members
        if is_idle and group.offsets.is_empty:
            self._registry.drop(shard, group)
        entries: list[Entry] = [(encode_offset_key(group.group_id, tp), None) for tp in removed]
        if group.state is GroupState.DEAD and group.generation_id > 0:
            entries.append((encode_group_key(group.group_id), None))
        return entries

    def _topics_changed(self, named: frozenset[str]) -> None:
        """Offsets of a deleted topic go at once: its name may come back with other records. Those
        of a topic that is kept are hidden, and come back with it (ADR 50), those of one that was
        renamed are carried over."""
        gone = {name for name in named if not self._metadata.contains_topic(name)}
        self._trash.topics_came(named - gone)
        gone = {name for name in gone if not self._metadata.was_renamed(name)}
        if not gone:
            return
        ending = self._registry.ending_topics
        # Where it is asked about a name already nobody has committed since.
        ended = (gone & self._committed_topics()) - set(ending)
        ids = self._trash.ids_of(ended)
        self._end(ended - ids.keys(), {})
        for name, topic_id in ids.items():
            ending.add(name, topic_id.hex())
        if ids:
            self._registry.spawn(self._end_or_hide(ids))

    def _committed_topics(self) -> set[str]:
        return {
            tp.topic
            for shard in self._registry.shards.loaded()
            for group in shard.entries.values()
            for tp in group.offsets.all_partitions()
        }

    async def _end_or_hide(self, ids: Mapping[str, TopicId]) -> None:
        try:
            names = await self._trash.names_of(ids)
            self._end(ids.keys(), names)
        finally:
            for name, topic_id in ids.items():
                self._registry.ending_topics.discard(name, topic_id.hex())
        self._trash.were_hidden(ids[topic] for topic in names)

    def _end(self, topics: Collection[str], names: Mapping[str, str]) -> None:
        """Ends the offsets of topics in one step: whatever is committed later is of other ones.
        `names` are those to hide some of them under."""
        for shard in self._registry.shards.loaded() if topics else ():
            tombstones = []
            for group in list(shard.entries.values()):
                known = [tp for tp in group.offsets.all_partitions() if tp.topic in topics]
                if known:
                    self._trash.hide(shard, group, names)
                    tombstones += self._forget(shard, group, known)
            self._registry.begin(self._bury(shard, tombstones))

    async def _bury(self, shard: Shard[Group], tombstones: list[Entry]) -> None:
        error = await self._registry.append_all(shard, tombstones)
        if error is not ErrorCode.NONE:
            logger.warning("Tombstones of deleted topics failed: %s", error.name)

    async def _expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_ms / 1000)
            await self.expire()


def _resolve(ended: asyncio.Future[ErrorCode]) -> OnEnd:
    def resolve(error: ErrorCode) -> None:
        # Whoever waited may have given up.
        if not ended.done():
            ended.set_result(error)

    return resolve


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
