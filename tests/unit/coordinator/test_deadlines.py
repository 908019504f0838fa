"""One timer for many keys."""

from __future__ import annotations

import asyncio

from ottla.coordinator.deadlines import Deadlines
from ottla.runtime import SystemClock
from tests.support.coordinator.coordinator_fakes import VirtualClock


async def test_keys_are_woken_once_in_order_and_not_early() -> None:
    clock, woken = VirtualClock(), list[str]()
    deadlines = Deadlines(clock, woken.append)
    deadlines.schedule("b", 20)
    deadlines.schedule("a", 10)
    deadlines.schedule("a", 15)  # later than what is set: nothing changes
    deadlines.run_due()
    assert woken == []
    clock.elapsed_ms = 30
    deadlines.run_due()
    deadlines.run_due()
    assert woken == ["a", "b"]
    deadlines.close()


async def test_an_earlier_time_replaces_the_later_one() -> None:
    clock, woken = VirtualClock(), list[str]()
    deadlines = Deadlines(clock, woken.append)
    deadlines.schedule("a", 50)
    deadlines.schedule("a", 5)
    clock.elapsed_ms = 6
    deadlines.run_due()
    assert woken == ["a"]
    clock.elapsed_ms = 60
    deadlines.run_due()
    assert woken == ["a"], "the later entry went stale"
    deadlines.close()


async def test_a_forgotten_key_is_not_woken() -> None:
    clock, woken = VirtualClock(), list[str]()
    deadlines = Deadlines(clock, woken.append)
    deadlines.schedule("a", 5)
    deadlines.forget("a")
    clock.elapsed_ms = 6
    deadlines.run_due()
    assert woken == []
    deadlines.close()


async def test_the_loops_timer_wakes_by_itself() -> None:
    clock, done = SystemClock(), asyncio.Event()
    deadlines = Deadlines(clock, lambda key: done.set())
    deadlines.schedule("late", clock.monotonic_ms() + 60_000)
    deadlines.schedule("soon", clock.monotonic_ms() + 5)
    await asyncio.wait_for(done.wait(), 2)
    deadlines.close()
