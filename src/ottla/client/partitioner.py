"""Which partition a record goes to: Kafka's DefaultPartitioner (2.4 to 3.2)."""

from __future__ import annotations

import random

from ottla.topics.partitioners import POSITIVE, murmur2


def partition_of_key(key: bytes, partition_count: int) -> int:
    """All partitions count, even those without a leader."""
    return (murmur2(key) & POSITIVE) % partition_count


class StickyChoice:
    """Records without a key stay on one partition until its batch is sent (KIP-480)."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._current: int | None = None

    def current(self, available: list[int]) -> int:
        if self._current not in available:
            self._current = self._rng.choice(available)
        return self._current

    def move_on(self, available: list[int]) -> None:
        """After a batch: another one, where there is another."""
        others = [partition for partition in available if partition != self._current]
        self._current = self._rng.choice(others) if others else self._current
