"""Where the tasks of a sink keep their notes: offsets of groups that are named after the query.

Offsets can only be committed for partitions that exist: task n uses partition n of the topic that
it writes to. Tasks beyond their number have a group of their own, and still look there when the
topic has grown. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


def transactional_id(query_id: str, sink_partition: int) -> str:
    return f"ottla-{query_id}-{sink_partition}"


def sink_group(query_id: str) -> str:
    """The group of the tasks of a query's sink; a task beyond the partitions of its topic has one
    of its own, with its number after a dash."""
    return f"ottla-sink-{query_id}"


class Slot(NamedTuple):
    """Where the note about the last micro-batch of one task is kept."""

    group: str
    topic: str
    partition: int


class Lookup(NamedTuple):
    """Notes to read in one group; `topics` is None for all that it has."""

    group: str
    topics: Mapping[str, Sequence[int]] | None


class Places(NamedTuple):
    """Where one task keeps its notes."""

    query_id: str
    task: int

    @property
    def shared(self) -> str:
        return sink_group(self.query_id)

    @property
    def apart(self) -> str:
        return f"{self.shared}-{self.task}"

    def is_own(self, slot: Slot) -> bool:
        return slot.group == self.apart or (
            slot.group == self.shared and slot.partition == self.task
        )

    def slot(self, topic: str, partition_count: int) -> Slot:
        """Where to write."""
        if self.task < partition_count:
            return Slot(self.shared, topic, self.task)
        return Slot(self.apart, topic, 0)

    def lookups(self, topic: str, partition_count: int) -> list[Lookup]:
        """Of a sink that writes to one topic: notes of all tasks, those of this one in both places.
        A program may write several topics under one txnAppId, so that others do not count."""
        partitions = range(max(partition_count, self.task + 1))
        return [Lookup(self.shared, {topic: partitions}), Lookup(self.apart, {topic: [0]})]

    def lookups_anywhere(self, slot: Slot) -> list[Lookup]:
        """Of a sink whose rows say where they go. `slot`, of the first row, is named as well: only
        then a broker tells that somebody is about to write the first note there."""
        named = Lookup(slot.group, {slot.topic: [slot.partition]})
        return [named, *self.lookups_without_rows(None)]

    def lookups_without_rows(self, topic: str | None) -> list[Lookup]:
        """Of this task alone, as far as brokers can tell them apart."""
        if topic is None:
            return [Lookup(self.shared, None), Lookup(self.apart, None)]
        return [Lookup(self.shared, {topic: [self.task]}), Lookup(self.apart, {topic: [0]})]
