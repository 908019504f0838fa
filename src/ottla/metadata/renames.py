"""`/ottla/renames/<topic id>`: this topic is being renamed, and how far that is (ADR 51).

The controller writes it before anything else and removes it last of all. Whoever becomes controller
in between takes a rename back whose names are not swapped yet, and finishes any other.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.metadata.by_topic_id import ZnodeByTopicId
from ottla.metadata.znode_values import dump, load, topic_name


class RenamePhase(Enum):
    # Coordinators let no new transaction at the topic. Nothing has changed yet.
    FENCING = "fencing"
    # The new name stands in the store; the partitions follow. There is no way back.
    MOVING = "moving"
    # The old name is gone from the store; brokers are told, the offsets of groups follow.
    CARRYING = "carrying"


class StoredRename(NamedTuple):
    source: str
    target: str
    phase: RenamePhase


class RenameZnode(ZnodeByTopicId):
    PARENT = "/ottla/renames"

    @staticmethod
    def encode(rename: StoredRename) -> bytes:
        return dump(
            {
                "version": 1,
                "from": rename.source,
                "to": rename.target,
                "phase": rename.phase.value,
            }
        )

    @staticmethod
    def decode(data: bytes | None) -> StoredRename | None:
        """None for garbage, by which nothing is done."""
        value = load(data) or {}
        source, target = topic_name(value.get("from")), topic_name(value.get("to"))
        if value.get("version") != 1 or source is None or target is None:
            return None
        try:
            phase = RenamePhase(value.get("phase"))
        except ValueError:
            return None
        return StoredRename(source, target, phase)
