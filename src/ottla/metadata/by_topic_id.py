"""Entries that have a topic's id for a name."""

from __future__ import annotations

from typing import ClassVar

from ottla.metadata.znode_values import read_topic_id
from ottla.types import TopicId, format_topic_id


class ZnodeByTopicId:
    """`<parent>/<topic id>`; what an entry holds is for the class of its kind."""

    PARENT: ClassVar[str]

    @classmethod
    def parent(cls) -> str:
        return cls.PARENT

    @classmethod
    def path(cls, topic_id: TopicId) -> str:
        return f"{cls.PARENT}/{format_topic_id(topic_id)}"

    @staticmethod
    def topic_id(name: str) -> TopicId | None:
        """Of a child's name; None for something else that somebody put there."""
        topic_id = read_topic_id(name)
        return topic_id if topic_id is not None and format_topic_id(topic_id) == name else None
