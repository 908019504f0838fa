"""Offsets of a topic that is about to be replaced by another one of the same name (ADR 53).

What groups are to go on at is stored first, under the name that the new topic still has. When the
names have changed hands, it becomes theirs under the old name: new offsets, the end of the old ones
and of the first name are one append. A group of which nothing was stored is left alone, so doing it
again does nothing.

A group that whoever resizes did not name (he may not see it) goes on at the start of the new topic:
it reads some records again, but its old numbers would make it skip others.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ottla.coordinator.groups import rebalance
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.records import CommittedOffset
from ottla.coordinator.groups.registry import GroupRegistry
from ottla.coordinator.ports import ClusterMetadata
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from ottla.runtime import Clock
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

# Notes of Spark's sinks: numbers of micro-batches, and no positions of readers.
_NOT_READERS = "ottla-sink-"

Offsets = Mapping[TopicPartition, CommittedOffset]


@dataclass(slots=True)
class Switched:
    """Partitions of `__consumer_offsets` in which nothing is left to be done."""

    partitions: list[int] = field(default_factory=list)
    groups: int = 0
    members: int = 0


class OffsetSwitch:
    """The group coordinator's part of a resize."""

    def __init__(self, registry: GroupRegistry, metadata: ClusterMetadata, clock: Clock) -> None:
        self._registry = registry
        self._metadata = metadata
        self._clock = clock
        # By topic: groups whose members were sent away since it was closed.
        self._ended: dict[str, set[str]] = {}

    def busy_with(self, topic: str) -> int:
        """How many groups have commits of the topic under way."""
        return sum(
            group.offsets.has_pending(topic) or group.offsets.has_staged(topic)
            for shard in self._registry.shards.loaded()
            for group in shard.entries.values()
        )

    def forget(self, topic: str) -> None:
        self._ended.pop(topic, None)

    async def stage(
        self,
        topic: str,
        shadow: str,
        partitions: int,
        offsets: Mapping[str, Mapping[int, int]],
    ) -> Switched:
        """Stores what groups are to go on at; whatever was stored before for the shadow goes.
        `partitions` are those of the shadow."""
        done = Switched()
        now_ms = self._clock.now_ms()
        from_the_start = dict.fromkeys(range(partitions), 0)
        for shard in self._registry.shards.loaded():
            error = ErrorCode.NONE
            for group in list(shard.entries.values()):
                places = offsets.get(group.group_id)
                if places is None:
                    places = from_the_start if _reads(group, topic) else {}
                wanted = {
                    TopicPartition(shadow, partition): CommittedOffset(offset, -1, "", now_ms)
                    for partition, offset in places.items()
                }
                known = _of_topic(group, shadow)
                if not wanted and not known:
                    continue
                gone = [tp for tp in known if tp not in wanted]
                error = await self._write(shard, group, wanted, gone)
                if error is not ErrorCode.NONE:
                    break
                done.groups += 1
            if error is ErrorCode.NONE and self._registry.shards.owns(shard):
                done.partitions.append(shard.partition)
        return done

    async def switch(self, topic: str, shadow: str) -> Switched:
        """Makes the shadow's offsets those of the topic, and ends every generation that reads it:
        the positions of its members are of the old topic."""
        done = Switched()
        ended = self._ended.setdefault(topic, set())
        for shard in self._registry.shards.loaded():
            error = ErrorCode.NONE
            for group in list(shard.entries.values()):
                error = await self._switch_group(shard, group, topic, shadow, done)
                if error is not ErrorCode.NONE:
                    break
                reads = group.subscribed_topics is not None and group.is_subscribed(topic)
                if reads and group.group_id not in ended:
                    ended.add(group.group_id)
                    done.members += rebalance.end_generation(group, f"topic {topic} was resized")
                    self._registry.settle(shard, group)
            if error is ErrorCode.NONE and self._registry.shards.owns(shard):
                done.partitions.append(shard.partition)
        return done

    async def _switch_group(
        self, shard: Shard[Group], group: Group, topic: str, shadow: str, done: Switched
    ) -> ErrorCode:
        staged = _of_topic(group, shadow)
        if not staged:
            return ErrorCode.NONE
        old = _of_topic(group, topic)
        new = {
            TopicPartition(topic, tp.partition): self._led(topic, tp.partition, commit)
            for tp, commit in staged.items()
        }
        # What no new offset replaces goes first: while something is staged all is done again.
        error = await self._write(shard, group, {}, [tp for tp in old if tp not in new])
        if error is ErrorCode.NONE:
            error = await self._write(shard, group, new, list(staged))
        done.groups += error is ErrorCode.NONE
        return error

    def _led(self, topic: str, partition: int, commit: CommittedOffset) -> CommittedOffset:
        """With the leader epoch of now, which is above all of the old topic's: a consumer that
        knows an older one looks for the leader before it reads (KIP-320), and does not ask a
        broker that has not heard of the swap."""
        state = self._metadata.topic_partitions(topic).get(partition)
        return commit if state is None else commit._replace(leader_epoch=state.leader_epoch)

    async def _write(
        self,
        shard: Shard[Group],
        group: Group,
        new: Offsets,
        gone: Collection[TopicPartition],
    ) -> ErrorCode:
        error = await self._registry.replace_many(shard, group, new=new, gone=gone)
        if error is not ErrorCode.NONE:
            logger.warning(
                "Offsets of group %s are not switched yet: %s", group.group_id, error.name
            )
        return error


def _of_topic(group: Group, topic: str) -> dict[TopicPartition, CommittedOffset]:
    return {tp: commit for tp, commit in group.offsets.committed.items() if tp.topic == topic}


def _reads(group: Group, topic: str) -> bool:
    return not group.group_id.startswith(_NOT_READERS) and bool(_of_topic(group, topic))
