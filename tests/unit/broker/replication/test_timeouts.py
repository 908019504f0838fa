"""Many deadlines, one timer."""

from __future__ import annotations

import asyncio

from ottla.broker.replication.timeouts import Timeouts


async def test_many_deadlines_share_one_timer() -> None:
    timeouts = Timeouts()
    fired: list[int] = []
    for delay_ms in (30, 10, 20):
        timeouts.schedule(delay_ms, lambda delay_ms=delay_ms: fired.append(delay_ms))  # type: ignore[misc]
    cancelled = timeouts.schedule(15, lambda: fired.append(15))
    timeouts.cancel(cancelled)
    assert len(timeouts) == 3
    await asyncio.sleep(0.06)
    assert fired == [10, 20, 30] and len(timeouts) == 0


async def test_finished_entries_do_not_pile_up() -> None:
    timeouts = Timeouts()
    for _ in range(10_000):
        timeouts.cancel(timeouts.schedule(1_000_000, lambda: None))
    assert len(timeouts) == 0 and len(timeouts._heap) < 3000
    timeouts.close()
