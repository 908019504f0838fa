"""How many partitions this broker has and leads, and how many of those lack a replica.

A broker with tens of thousands of partitions counts them less often: whoever looks every second
must not cost it a per cent of its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.replication.partition import is_under_replicated

if TYPE_CHECKING:
    from ottla.bounds.turns import Turns
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.runtime import Clock

# Up to so many partitions are counted anew at every look.
_FEW = 2_000
_KEPT_MS = 5_000


class Tally(NamedTuple):
    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0


class PartitionTally:
    """The last count, and when it was made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tally = Tally()
        self._counted_ms: float | None = None

    async def get(self, partitions: HostedPartitions, turns: Turns) -> Tally:
        now_ms = self._clock.monotonic_ms()
        is_kept = self._counted_ms is not None and now_ms - self._counted_ms < _KEPT_MS
        if is_kept and len(partitions) > _FEW:
            return self._tally
        leaders = under_replicated = 0
        self._counted_ms = now_ms
        async for partition in turns.each(list(partitions)):
            if partition.is_leader:
                leaders += 1
                under_replicated += is_under_replicated(partition)
        self._tally = Tally(len(partitions), leaders, under_replicated)
        return self._tally
