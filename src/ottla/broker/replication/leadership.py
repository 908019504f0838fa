"""Who wants to know when this broker starts or stops leading a partition: the coordinators."""

from __future__ import annotations

from collections.abc import Callable

from ottla.types import TopicPartition

OnLeader = Callable[[TopicPartition, int], None]
OnResign = Callable[[TopicPartition, int | None], None]


class LeadershipListeners:
    def __init__(self) -> None:
        self._listeners: list[tuple[OnLeader, OnResign]] = []

    def add(self, on_leader: OnLeader, on_resign: OnResign) -> None:
        """(partition, leader epoch) each time this broker starts or stops leading; None as epoch
        where the replica went away altogether."""
        self._listeners.append((on_leader, on_resign))

    def began(self, tp: TopicPartition, leader_epoch: int) -> None:
        for on_leader, _ in self._listeners:
            on_leader(tp, leader_epoch)

    def ended(self, tp: TopicPartition, leader_epoch: int | None) -> None:
        for _, on_resign in self._listeners:
            on_resign(tp, leader_epoch)
