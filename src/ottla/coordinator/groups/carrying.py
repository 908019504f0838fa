"""Offsets of one topic become those of another, group by group (ADR 51).

A rename carries them as they are; whoever replaces a topic says which offsets each group gets. Old
and new of a partition are one append: no crash leaves a group with both, or with neither.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.groups.registry import GroupRegistry
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from ottla.runtime import Clock
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

_GROUPS_TOLD = 100

Offsets = Mapping[TopicPartition, CommittedOffset]


class NewOffset(NamedTuple):
    """What a group is to go on from, in a partition of the new topic."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(slots=True)
class Carried:
    """Partitions of `__consumer_offsets` in which nothing is left to be carried."""

    partitions: list[int] = field(default_factory=list)
    groups: int = 0
    offsets: int = 0
    group_ids: list[str] = field(default_factory=list)


class OffsetCarrier:
    """The group coordinator's part of a rename, and of any other swap of topics."""

    def __init__(self, registry: GroupRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def carry(
        self,
        source: str,
        target: str,
        explicit: Mapping[str, list[NewOffset]] | None = None,
    ) -> Carried:
        """Of all groups here, or (`explicit`) to these offsets. Doing it again does nothing. Groups
        that subscribe to `source` join anew: their members' positions are of the old name."""
        carried = Carried()
        for shard in self._registry.shards.loaded():
            complete = True
            for group in list(shard.entries.values()):
                if shard.entries.get(group.group_id) is not group:
                    continue
                error = await self._carry_group(shard, group, (source, target), explicit, carried)
                complete = complete and error is ErrorCode.NONE
                if group.subscribed_topics is not None and group.is_subscribed(source):
                    rebalance.prepare_rebalance(group, f"topic {source} was renamed to {target}")
                    self._registry.settle(shard, group)
            if complete and self._registry.shards.owns(shard):
                carried.partitions.append(shard.partition)
        return carried

    async def _carry_group(
        self,
        shard: Shard[Group],
        group: Group,
        topics: tuple[str, str],
        explicit: Mapping[str, list[NewOffset]] | None,
        carried: Carried,
    ) -> ErrorCode:
        source, target = topics
        table = group.offsets
        if table.has_pending(source) or table.has_staged(source):
            return ErrorCode.UNSTABLE_OFFSET_COMMIT
        old = {tp: commit for tp, commit in table.committed.items() if tp.topic == source}
        new = self._new_offsets(group, target, old, explicit)
        # What has been done before; the rest may be the same partitions under the same name.
        old = {tp: commit for tp, commit in old.items() if tp not in new}
        new = {
            tp: commit
            for tp, commit in new.items()
            if (known := table.committed.get(tp)) is None or known[:3] != commit[:3]
        }
        if not old and not new:
            return ErrorCode.NONE
        error = await self._registry.replace_many(shard, group, new=new, gone=old)
        if error is not ErrorCode.NONE:
            logger.warning(
                "Offsets of group %s are not carried to %s yet: %s",
                group.group_id,
                target,
                error.name,
            )
            return error
        carried.groups += 1
        carried.offsets += len(new)
        if len(carried.group_ids) < _GROUPS_TOLD:
            carried.group_ids.append(group.group_id)
        return ErrorCode.NONE

    def _new_offsets(
        self,
        group: Group,
        target: str,
        old: Offsets,
        explicit: Mapping[str, list[NewOffset]] | None,
    ) -> dict[TopicPartition, CommittedOffset]:
        if explicit is None:
            return {TopicPartition(target, tp.partition): commit for tp, commit in old.items()}
        now_ms = self._clock.now_ms()
        return {
            TopicPartition(target, new.partition): CommittedOffset(
                new.offset, new.leader_epoch, new.metadata, now_ms
            )
            for new in explicit.get(group.group_id, ())
        }
