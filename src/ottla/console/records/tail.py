"""Records as they come, at a rate that a reader can bear: the newest of each round, and how many
were left out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.console.records.seen import Seen
    from ottla.types import TopicPartition

MAX_A_ROUND = 20
MAX_KEPT = 50

Ends = dict["TopicPartition", int]
Windows = dict["TopicPartition", tuple[int, int]]


class Tail:
    """Begins at the ends that the first poll finds. `told` makes the news of records, newest first,
    and the number of those left out."""

    def __init__(
        self,
        ends: Callable[[], Awaitable[Ends]],
        read: Callable[[Windows, int], Awaitable[list[Seen]]],
        told: Callable[[list[Seen], int], Any],
    ) -> None:
        self._ends = ends
        self._read = read
        self._told = told
        self._positions: Ends | None = None
        self._kept: list[Seen] = []
        self._skipped = 0

    async def poll(self) -> Any | None:
        ends = await self._ends()
        if self._positions is None:
            self._positions = ends
            return self._told([], 0)
        windows, came = plan_round(self._positions, ends)
        if not came:
            self._positions = ends
            return None
        records = await self._read(windows, MAX_A_ROUND)
        self._positions = ends
        self._kept = [*records, *self._kept][:MAX_KEPT]
        skipped = came - len(records) if came > MAX_A_ROUND else 0
        self._skipped += skipped
        return self._told(records, skipped) if records or skipped else None

    def whole(self) -> Any | None:
        return None if self._positions is None else self._told(self._kept, self._skipped)


def plan_round(positions: Ends, ends: Ends) -> tuple[Windows, int]:
    """What to read of each partition, its newest, and how many offsets are new in all. A partition
    that is new itself is read from its first offset; one that was cut off begins anew."""
    windows: Windows = {}
    came = 0
    for partition, end in ends.items():
        begin = min(positions.get(partition, 0), end)
        if end > begin:
            came += end - begin
            windows[partition] = (max(begin, end - MAX_A_ROUND), end)
    return windows, came
