"""Offsets that a group commits inside a producer's transaction (TxnOffsetCommit, KIP-447).

They are written at once, as a batch of that transaction, and show when its marker says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.fenced_topics import FencedTopics
from ottla.coordinator.groups.answers import OFFSET_WRITE_ERRORS, Committer
from ottla.coordinator.groups.group import UNKNOWN_MEMBER_ID, Group
from ottla.coordinator.groups.offset_table import within_limit
from ottla.coordinator.groups.records import CommittedOffset, offset_entries
from ottla.coordinator.groups.registry import GroupRegistry
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode
from ottla.types import TopicPartition


class TransactionalOffsets:
    """The group coordinator's part of transactions."""

    def __init__(self, registry: GroupRegistry, max_metadata: int) -> None:
        self._registry = registry
        self._max_metadata = max_metadata
        # Topics whose offsets no transaction may commit now: they are being renamed or resized
        # (ADR 51, 53).
        self.fenced_topics = FencedTopics()

    async def commit(
        self,
        group_id: str,
        committer: Committer,
        producer: ProducerStamp,
        commits: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, ErrorCode]:
        shard = self._registry.find(group_id)
        if isinstance(shard, ErrorCode):
            return dict.fromkeys(commits, shard)
        ending = self._registry.ending_topics
        if any(tp.topic in self.fenced_topics or tp.topic in ending for tp in commits):
            # What clients try again until their time is up.
            return dict.fromkeys(commits, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        group = shard.entries.get(group_id) or self._registry.create(shard, group_id)
        error = _check_committer(group, committer)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(commits, error)
        results = dict.fromkeys(commits, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        accepted = within_limit(commits, self._max_metadata)
        if accepted:
            producer_id = producer.producer_id
            group.offsets.begin_staged(producer_id, accepted)
            appended_at = None
            try:
                error, base_offset = await self._registry.append(
                    shard, offset_entries(group_id, accepted), producer
                )
                appended_at = base_offset if error is ErrorCode.NONE else None
            finally:
                group.offsets.finish_staged(producer_id, accepted, appended_at)
            results.update(dict.fromkeys(accepted, OFFSET_WRITE_ERRORS.get(error, error)))
        return results

    def open_on(self, topic: str) -> int | ErrorCode:
        """How many groups have offsets of the topic that wait for a transaction's marker."""
        if self._registry.shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return sum(
            group.offsets.has_staged(topic)
            for shard in self._registry.shards.loaded()
            for group in shard.entries.values()
        )

    def end(self, partition: int, producer_id: int, *, committed: bool) -> None:
        """A marker is in that partition of `__consumer_offsets`: what waited for it shows or
        goes."""
        for shard in self._registry.shards.loaded():
            if shard.partition == partition:
                for group in shard.entries.values():
                    group.offsets.end_transaction(producer_id, committed=committed)


def _check_committer(group: Group, committer: Committer) -> ErrorCode:
    """Older producers name no member and no generation; what is named must be right."""
    member_id, generation_id = committer.member_id, committer.generation_id
    if group.is_fenced(member_id, committer.instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id != UNKNOWN_MEMBER_ID and member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation_id >= 0 and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE
