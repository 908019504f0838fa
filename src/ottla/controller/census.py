"""How many partitions and replicas are in which state, and how often which transition was taken.

Kept as counts while states change, so that a look costs the same with 50,000 partitions as with
none. One per reign: a new controller counts from its own election on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.controller.partition_states import VALID_PREVIOUS as VALID_PREVIOUS_OF_PARTITIONS
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import VALID_PREVIOUS as VALID_PREVIOUS_OF_REPLICAS
from ottla.controller.replica_states import ReplicaState

State = TypeVar("State", PartitionState, ReplicaState)


class Census:
    """What does not exist is not counted: nobody knows how much of it there is."""

    def __init__(self) -> None:
        self.partitions: Counter[PartitionState] = Counter()
        self.replicas: Counter[ReplicaState] = Counter()
        self.partition_steps: Counter[tuple[PartitionState, PartitionState]] = Counter()
        self.replica_steps: Counter[tuple[ReplicaState, ReplicaState]] = Counter()

    def partition_moved(self, source: PartitionState, target: PartitionState) -> None:
        """A partition is in another state, by a transition or because it was found in it."""
        if source is not PartitionState.NON_EXISTENT:
            self.partitions[source] -= 1
        if target is not PartitionState.NON_EXISTENT:
            self.partitions[target] += 1

    def replica_moved(self, source: ReplicaState, target: ReplicaState) -> None:
        if source is not ReplicaState.NON_EXISTENT:
            self.replicas[source] -= 1
        if target is not ReplicaState.NON_EXISTENT:
            self.replicas[target] += 1

    def partitions_found(self, states: Iterable[PartitionState]) -> None:
        """All that there are, as a new controller finds them."""
        self.partitions = Counter(states)

    def replicas_found(self, states: Iterable[ReplicaState]) -> None:
        self.replicas = Counter(states)

    def replicas_forgotten(self, counts: Mapping[ReplicaState, int]) -> None:
        """Those of a topic that is known no more."""
        self.replicas.subtract(counts)


def legal_partition_steps() -> list[tuple[PartitionState, PartitionState]]:
    return _steps(VALID_PREVIOUS_OF_PARTITIONS)


def legal_replica_steps() -> list[tuple[ReplicaState, ReplicaState]]:
    return _steps(VALID_PREVIOUS_OF_REPLICAS)


def _steps(table: Mapping[State, frozenset[State]]) -> list[tuple[State, State]]:
    """(from, to), in the order of the states."""
    return sorted((source, target) for target, allowed in table.items() for source in allowed)
