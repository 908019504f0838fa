"""Offsets of topics in the trash (ADR 50): out of sight, and back when their topic is.

They stay in the group's own records, under a name that no topic can have, made of the topic's id
and the time after which nobody needs them. So they survive whatever the log survives, and a
coordinator of Apache Kafka keeps them too. Old and new of a group are one append.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.hidden_names import hidden_name, read_hidden
from ottla.coordinator.groups.records import CommittedOffset, encode_offset_key, offset_entries
from ottla.coordinator.groups.registry import Entry, GroupRegistry
from ottla.coordinator.ports import ClusterMetadata
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from ottla.runtime import Clock
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

logger = logging.getLogger(__name__)

# Asks until when a topic that ended is kept; None: not at all.
KeptUntil = Callable[[TopicId], Awaitable[int | None]]


async def nothing_is_kept(_: TopicId) -> int | None:
    """Where there is no store to ask."""
    return None


class TrashedOffsets:
    """The group coordinator's part of the trash. `kept_until` asks the store."""

    def __init__(
        self,
        registry: GroupRegistry,
        metadata: ClusterMetadata,
        clock: Clock,
        kept_until: KeptUntil,
    ) -> None:
        self._registry = registry
        self._metadata = metadata
        self._clock = clock
        self._kept_until = kept_until
        # Topics of which some group here has hidden offsets, or had.
        self._hidden: set[TopicId] = set()

    def start(self) -> None:
        self._registry.after_load.append(self._loaded)

    def ids_of(self, topics: Iterable[str]) -> dict[str, TopicId]:
        """Of topics that have just left the metadata; to be asked at once."""
        found = {topic: self._metadata.ended_id(topic) for topic in topics}
        return {topic: topic_id for topic, topic_id in found.items() if topic_id != ZERO_TOPIC_ID}

    async def names_of(self, ids: Mapping[str, TopicId]) -> dict[str, str]:
        """Under which names the offsets of ended topics are hidden; only of those that are kept."""
        kept = {topic: await self._kept_until(topic_id) for topic, topic_id in ids.items()}
        for topic, topic_id in ids.items():
            # One that is back by now has no entry in the trash any more, and keeps its offsets.
            if kept[topic] is None and self._metadata.topic_name(topic_id) is not None:
                kept[topic] = self._clock.now_ms()
        return {t: hidden_name(ids[t], until) for t, until in kept.items() if until is not None}

    def hide(self, shard: Shard[Group], group: Group, names: Mapping[str, str]) -> None:
        """Hides the group's offsets of topics that are kept. A commit that is under way is not
        among them: nobody knows yet whether the log takes it."""
        moved = {
            tp: TopicPartition(names[tp.topic], tp.partition)
            for tp in group.offsets.committed
            if tp.topic in names
        }
        if moved:
            self._registry.begin(self._move(shard, group, moved))

    def were_hidden(self, ids: Iterable[TopicId]) -> None:
        """Some of these may be back already."""
        self._hidden.update(ids)
        self.topics_came([name for name in map(self._metadata.topic_name, self._hidden) if name])

    def topics_came(self, topics: Iterable[str]) -> None:
        """Topics of the metadata: one of them may be back."""
        if not self._hidden:
            return
        back = {
            topic_id: topic
            for topic in topics
            if (topic_id := self._metadata.topic_id(topic)) in self._hidden
            and self._is_back(topic_id, topic)
        }
        if back:
            self._hidden.difference_update(back)
            for shard in self._registry.shards.loaded():
                self._registry.begin(self._show(shard, back))

    def _is_back(self, topic_id: TopicId, name: str) -> bool:
        """Not while offsets of an earlier topic of that name are still there."""
        is_free = name not in self._registry.ending_topics
        return is_free and self._metadata.topic_name(topic_id) == name

    def _loaded(self, shard: Shard[Group]) -> None:
        """Topics may have come back while nobody coordinated these groups."""
        ids = {
            hidden.topic_id
            for group in shard.entries.values()
            for tp in group.offsets.committed
            if (hidden := read_hidden(tp.topic)) is not None
        }
        names = {topic_id: self._metadata.topic_name(topic_id) for topic_id in ids}
        back = {i: name for i, name in names.items() if name is not None and self._is_back(i, name)}
        self._hidden |= ids - back.keys()
        if back:
            self._registry.begin(self._show(shard, back))

    async def _show(self, shard: Shard[Group], back: Mapping[TopicId, str]) -> None:
        """Of all groups in one step, before anything waits for the log: whoever asks in between
        would be told that a group has none, and begin at the end."""
        moves = []
        for group in list(shard.entries.values()):
            moved = {}
            for tp in group.offsets.committed:
                hidden = read_hidden(tp.topic)
                if hidden is None or hidden.topic_id not in back:
                    continue
                name = back[hidden.topic_id]
                if self._is_back(hidden.topic_id, name):
                    moved[tp] = TopicPartition(name, tp.partition)
                else:
                    self._hidden.add(hidden.topic_id)  # it was deleted again meanwhile
            if moved and shard.entries.get(group.group_id) is group:
                now_ms = self._clock.now_ms()
                moves.append(self._registry.begin(self._move(shard, group, moved, now_ms=now_ms)))
        for move in moves:
            await move

    async def _move(
        self,
        shard: Shard[Group],
        group: Group,
        moved: Mapping[TopicPartition, TopicPartition],
        now_ms: int | None = None,
    ) -> None:
        """Seen under the new names at once; with `now_ms` as if committed then, so that they do
        not expire as soon as they are back. What a group has committed there itself stays, or is
        about to commit."""
        table = group.offsets
        new: dict[TopicPartition, CommittedOffset] = {}
        for source, target in moved.items():
            commit = table.committed[source]
            if target not in table.committed and not table.is_unstable(target):
                stamp = commit.commit_timestamp_ms if now_ms is None else now_ms
                new[target] = commit._replace(commit_timestamp_ms=stamp)
        table.remove(moved)
        table.committed.update(new)
        entries: list[Entry] = [*offset_entries(group.group_id, new)]
        entries += [(encode_offset_key(group.group_id, tp), None) for tp in moved]
        error = await self._registry.append_all(shard, entries)
        if error is not ErrorCode.NONE:
            logger.warning("Offsets of group %s could not be moved: %s", group.group_id, error.name)
