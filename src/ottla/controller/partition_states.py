"""States of a partition and which may follow which (kafka.controller.PartitionStateMachine)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class PartitionState(IntEnum):
    """Kafka's state bytes."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3

    @property
    def title(self) -> str:
        """The name that Kafka's state-change log uses."""
        return _TITLES[self]


_TITLES: Mapping[PartitionState, str] = {
    PartitionState.NEW: "NewPartition",
    PartitionState.ONLINE: "OnlinePartition",
    PartitionState.OFFLINE: "OfflinePartition",
    PartitionState.NON_EXISTENT: "NonExistentPartition",
}

VALID_PREVIOUS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
