"""`/ottla/ended/<topic id>`: this topic's deletion was asked for and is done (ADR 28).

The controller writes it before the topic's znode goes. A broker that was away deletes a log by this
word only: a topic that is merely missing from the store may have been lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.metadata.znode_values import dump, integers, load, read_topic_id
from ottla.types import TopicId, format_topic_id


class EndedTopic(NamedTuple):
    """The topic's name, and Ottla's brokers that were down: they may still have logs of it."""

    topic: str
    brokers: tuple[int, ...]


class EndedTopicZnode:
    @staticmethod
    def parent() -> str:
        return "/ottla/ended"

    @classmethod
    def path(cls, topic_id: TopicId) -> str:
        return f"{cls.parent()}/{format_topic_id(topic_id)}"

    @staticmethod
    def topic_id(name: str) -> TopicId | None:
        """Of a child's name; None for something else that somebody put there."""
        topic_id = read_topic_id(name)
        return topic_id if topic_id is not None and format_topic_id(topic_id) == name else None

    @staticmethod
    def encode(topic: str, brokers: Iterable[int]) -> bytes:
        return dump({"version": 1, "topic": topic, "brokers": sorted(set(brokers))})

    @staticmethod
    def decode(data: bytes | None) -> EndedTopic | None:
        """None for garbage, which is no evidence of anything."""
        value = load(data) or {}
        topic, brokers = value.get("topic"), integers(value.get("brokers"))
        if value.get("version") != 1 or not isinstance(topic, str) or not topic or brokers is None:
            return None
        return EndedTopic(topic, brokers)
