"""Offsets that are about to become those of another topic (ADR 51, 53).

A topic is seen under its new name, or with its new id, a moment before every coordinator has
carried the offsets of its groups over. Whoever asks in between would be told that a group has none,
and begin at the end: records would be skipped. So groups with something left to be carried are not
answered for until it is.
"""

from __future__ import annotations

from ottla.coordinator.groups.group import Group
from ottla.coordinator.ports import ClusterMetadata

# Of names that nobody takes back; the oldest is the first to go.
_MAX_NAMES = 1_000


class UncarriedNames:
    """Names under which groups have offsets for a topic that is called otherwise soon."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        # By the topic that is renamed or resized: the name that will go.
        self._names: dict[str, str] = {}

    def expect(self, topic: str, name: str) -> None:
        self._names.pop(topic, None)
        self._names[topic] = name
        if len(self._names) > _MAX_NAMES:
            del self._names[next(iter(self._names))]

    def forget(self, topic: str) -> None:
        self._names.pop(topic, None)

    def has_some_of(self, group: Group) -> bool:
        """Whether a name has gone and the group's offsets still stand under it."""
        if not self._names:
            return False
        gone = {name for name in self._names.values() if not self._metadata.contains_topic(name)}
        return bool(gone) and any(tp.topic in gone for tp in group.offsets.committed)
