"""Whose turn it is, on a clock that moves only when it is told to."""

from __future__ import annotations

import asyncio

from ottla.bounds.turns import TURN_MS
from ottla.zk.server.turns import Turns


class HandClock:
    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


class Busy:
    """Needs so many milliseconds, of which a turn takes up to what is left of the slice."""

    def __init__(self, name: str, turns: Turns, clock: HandClock, needed_ms: float) -> None:
        self.name = name
        self.left_ms = needed_ms
        self.served: list[str] = []
        self._turns = turns
        self._clock = clock

    def go_on(self, until_ms: float) -> None:
        took = min(self.left_ms, max(1.0, until_ms - self._clock.ms))
        self._clock.ms += took
        self.left_ms -= took
        self.served.append(self.name)
        if self.left_ms > 0:
            self._turns.wait(self)


async def test_those_with_more_to_do_share_one_slice_of_each_turn_of_the_loop():
    clock = HandClock()
    turns = Turns(clock, lambda: False)
    log: list[str] = []
    busy = [Busy(name, turns, clock, 3 * TURN_MS) for name in "abc"]
    for one in busy:
        one.served = log
        turns.wait(one)
    longest = 0.0
    while len(turns):
        before = clock.ms
        await asyncio.sleep(0)
        longest = max(longest, clock.ms - before)
    assert log == ["a", "b", "c"] * 3
    assert longest == TURN_MS


async def test_many_with_little_are_served_in_one_turn():
    clock = HandClock()
    turns = Turns(clock, lambda: False)
    busy = [Busy(str(number), turns, clock, 0.01) for number in range(100)]
    for one in busy:
        turns.wait(one)
    await asyncio.sleep(0)
    assert all(one.left_ms == 0 for one in busy)


async def test_nobody_has_a_turn_while_the_disk_catches_up():
    clock = HandClock()
    full = [True]
    turns = Turns(clock, lambda: full[0])
    one = Busy("a", turns, clock, 1)
    turns.wait(one)
    for _ in range(3):
        await asyncio.sleep(0)
    assert one.left_ms == 1
    full[0] = False
    turns.wake()
    await asyncio.sleep(0)
    assert one.left_ms == 0


async def test_who_is_gone_has_no_turn():
    clock = HandClock()
    turns = Turns(clock, lambda: False)
    one = Busy("a", turns, clock, 1)
    turns.wait(one)
    turns.forget(one)
    await asyncio.sleep(0)
    assert one.left_ms == 1


async def test_where_time_stands_still_everybody_has_one_turn_and_then_the_loop():
    """As in the simulator."""
    clock = HandClock()
    turns = Turns(clock, lambda: False)
    served = []

    class Endless:
        def go_on(self, until_ms: float) -> None:
            served.append(until_ms)
            turns.wait(self)

    endless = Endless()
    turns.wait(endless)
    await asyncio.sleep(0)
    assert len(served) == 1
    turns.forget(endless)
