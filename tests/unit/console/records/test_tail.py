"""Following: the newest of each round, and how many were left out."""

from __future__ import annotations

from typing import Any

from ottla.console.records.tail import MAX_A_ROUND, Tail, Windows, plan_round
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_only_the_newest_of_a_flood_are_read() -> None:
    assert plan_round({T0: 5, T1: 7}, {T0: 5, T1: 7}) == ({}, 0)
    assert plan_round({T0: 5}, {T0: 8, T1: 2}) == ({T0: (5, 8), T1: (0, 2)}, 5)
    assert plan_round({T0: 0}, {T0: 10_000}) == ({T0: (10_000 - MAX_A_ROUND, 10_000)}, 10_000)
    assert plan_round({T0: 9}, {T0: 3}) == ({}, 0)


async def test_what_is_left_out_is_counted() -> None:
    ends = {T0: 5}

    async def now() -> dict[TopicPartition, int]:
        return dict(ends)

    async def read(windows: Windows, limit: int) -> list[Any]:
        [(low, high)] = windows.values()
        return list(range(low, high))[::-1][:limit]

    tail = Tail(now, read, lambda records, skipped: (records, skipped))
    assert tail.whole() is None
    assert await tail.poll() == ([], 0)
    assert await tail.poll() is None
    ends[T0] = 7
    assert await tail.poll() == ([6, 5], 0)
    ends[T0] = 1007
    records, skipped = await tail.poll()
    assert (records[0], len(records), skipped) == (1006, MAX_A_ROUND, 1000 - MAX_A_ROUND)
    assert tail.whole() == ([*records, 6, 5], skipped)
