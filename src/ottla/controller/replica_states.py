"""States of a replica and which may follow which (kafka.controller.ReplicaStateMachine)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ReplicaState(IntEnum):
    """Kafka's state bytes."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7

    @property
    def title(self) -> str:
        """The name that Kafka's state-change log uses."""
        return _TITLES[self]


_TITLES: Mapping[ReplicaState, str] = {
    ReplicaState.NEW: "NewReplica",
    ReplicaState.ONLINE: "OnlineReplica",
    ReplicaState.OFFLINE: "OfflineReplica",
    ReplicaState.DELETION_STARTED: "ReplicaDeletionStarted",
    ReplicaState.DELETION_SUCCESSFUL: "ReplicaDeletionSuccessful",
    ReplicaState.DELETION_INELIGIBLE: "ReplicaDeletionIneligible",
    ReplicaState.NON_EXISTENT: "NonExistentReplica",
}

_HOSTED = frozenset(
    {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    }
)

VALID_PREVIOUS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _HOSTED,
    ReplicaState.OFFLINE: _HOSTED,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
