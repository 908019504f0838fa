"""`/ottla/resizes/<topic id>`: this topic is getting another number of partitions (ADR 53).

The controller writes it before anything else and removes it last of all. While the phase is COPYING
or FENCED the topic is as it was, and whoever becomes controller lifts a fence; from MOVING on the
name belongs to the new topic, and whoever becomes controller finishes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.metadata.by_topic_id import ZnodeByTopicId
from ottla.metadata.znode_values import (
    MAX_INT32,
    MAX_INT64,
    Json,
    dump,
    load,
    number_up_to,
    read_topic_id,
    topic_name,
)
from ottla.types import ZERO_TOPIC_ID, TopicId, format_topic_id


class ResizePhase(Enum):
    # Records are on their way to the shadow. The topic serves.
    COPYING = "copying"
    # Leaders take no records, coordinators no offsets. The topic is still the old one.
    FENCED = "fenced"
    # The name has the id and the shape of the new topic; states follow. There is no way back.
    MOVING = "moving"
    # Brokers are told, the offsets of groups follow, and then the new topic serves.
    CARRYING = "carrying"


class StoredResize(NamedTuple):
    """`shadow` is the name that the new topic has until it gets the old one's. `fence` counts the
    fences of this resize: who finishes it says which one he worked under."""

    topic: str
    topic_id: TopicId
    shadow: str
    shadow_id: TopicId
    partitions: int
    replication_factor: int
    partitioner: str
    phase: ResizePhase
    fence: int
    begun_ms: int

    @property
    def is_swapped(self) -> bool:
        return self.phase in (ResizePhase.MOVING, ResizePhase.CARRYING)


class ResizeZnode(ZnodeByTopicId):
    PARENT = "/ottla/resizes"

    @staticmethod
    def encode(resize: StoredResize) -> bytes:
        return dump(
            {
                "version": 1,
                "topic": resize.topic,
                "topic_id": format_topic_id(resize.topic_id),
                "shadow": resize.shadow,
                "shadow_id": format_topic_id(resize.shadow_id),
                "partitions": resize.partitions,
                "replication_factor": resize.replication_factor,
                "partitioner": resize.partitioner,
                "phase": resize.phase.value,
                "fence": resize.fence,
                "begun_ms": resize.begun_ms,
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> StoredResize | None:
        """None for garbage, by which nothing is done."""
        value = load(data) or {}
        topic, shadow = topic_name(value.get("topic")), topic_name(value.get("shadow"))
        # Any word may be one: which there are is for others to know.
        partitioner = topic_name(value.get("partitioner"))
        partitions, factor, fence, begun_ms = (
            number_up_to(value.get(key), highest) for key, highest in _NUMBERS
        )
        topic_id, shadow_id = _topic_id(value, "topic_id"), _topic_id(value, "shadow_id")
        if value.get("version") != 1 or topic_id is None or shadow_id is None:
            return None
        if topic_id == ZERO_TOPIC_ID:
            return None
        try:
            phase = ResizePhase(value.get("phase"))
        except ValueError:
            return None
        if topic is None or shadow is None or partitioner is None:
            return None
        if not partitions or factor is None or fence is None or begun_ms is None:
            return None
        return StoredResize(
            topic,
            topic_id,
            shadow,
            shadow_id,
            partitions,
            factor,
            partitioner,
            phase,
            fence,
            begun_ms,
        )


_NUMBERS = (
    ("partitions", MAX_INT32),
    ("replication_factor", 2**15 - 1),
    ("fence", MAX_INT32 - 1),
    ("begun_ms", MAX_INT64),
)


def _topic_id(value: Json, key: str) -> TopicId | None:
    """The zero id too: of a shadow that is not there yet."""
    text = value.get(key)
    if text == format_topic_id(ZERO_TOPIC_ID):
        return ZERO_TOPIC_ID
    return read_topic_id(text) if isinstance(text, str) else None
