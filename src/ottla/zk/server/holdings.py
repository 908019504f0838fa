"""One bound for what all clients together make the store keep for them: requests that are not
whole yet, answers that nobody reads, watches. Pure.

Where it is passed, the heaviest connection goes, of the address that holds most: what many
connections of one client hold counts together, and no other client pays for it.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

MAX_HELD_BYTES = 512 << 20
# Less than this is not counted, nor is a change by less.
GRAIN_BYTES = 1 << 14


class Holder(Protocol):
    host: str

    def give_up(self, reason: str) -> None:
        """Ends it and lets go of everything it holds."""


class Holdings:
    def __init__(self, limit_bytes: int = MAX_HELD_BYTES) -> None:
        self.total = 0
        self._limit = limit_bytes
        self._sizes: dict[Holder, int] = {}

    def note(self, holder: Holder, size: int) -> None:
        """What a holder has now; 0 where it is gone."""
        if size < GRAIN_BYTES:
            size = 0
        before = self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        self.total += size - before
        while self.total > self._limit:
            heaviest = self._heaviest()
            self.total -= self._sizes.pop(heaviest)
            heaviest.give_up("clients hold too much, and it holds most")

    def _heaviest(self) -> Holder:
        hosts: Counter[str] = Counter()
        for holder, size in self._sizes.items():
            hosts[holder.host] += size
        host = max(hosts, key=hosts.__getitem__)
        return max(
            (holder for holder in self._sizes if holder.host == host), key=self._sizes.__getitem__
        )
