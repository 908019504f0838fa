"""Offsets that are about to become those of another topic (ADR 51, 53).

A topic is seen under its new name, or with its new id, a moment before every coordinator has
carried the offsets of its groups over. Whoever asks in between would be told that a group has none,
or of positions in the old topic, and records would be skipped. So groups with something left to be
carried are not answered for until it is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.coordinator.groups.group import Group
from ottla.coordinator.ports import ClusterMetadata
from ottla.types import TopicPartition


class _Expected(NamedTuple):
    source: str
    target: str


class UncarriedNames:
    """Names under which groups have offsets for a topic that is, or soon will be, called
    otherwise."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        # By the topic that is renamed or resized.
        self._expected: dict[str, _Expected] = {}

    def expect(self, topic: str, *, source: str, target: str) -> None:
        """What groups have under `source` becomes theirs under `target`; until `forget`."""
        self._expected[topic] = _Expected(source, target)

    def forget(self, topic: str) -> None:
        self._expected.pop(topic, None)

    def has_some_of(self, group: Group, asked: Collection[TopicPartition] | None) -> bool:
        """Whether what is asked for is still to be carried. Other brokers may know of the new topic
        before this one: the target counts whether it is known here or not."""
        if not self._expected:
            return False
        topics = {tp.topic for tp in asked or ()}
        sources = {
            source
            for source, target in self._expected.values()
            if target in topics or not self._metadata.contains_topic(source)
        }
        return bool(sources) and any(tp.topic in sources for tp in group.offsets.committed)
