"""Fetches that wait for data."""

from __future__ import annotations

from ottla.broker.fetching.waits import FetchWait
from ottla.broker.replication.partition import FetchWaiter
from ottla.broker.replication.timeouts import Timeouts


async def test_a_fetch_wait_hangs_on_its_partitions_until_it_ends() -> None:
    class Ready:
        def __init__(self) -> None:
            self.fetch_waits: dict[FetchWaiter, None] = {}
            self.available = 0

        def bytes_available(self, offset: int, *, as_follower: bool, committed: bool) -> int:
            return self.available

    timeouts = Timeouts()
    first, second = Ready(), Ready()
    wait = FetchWait(timeouts, 5000, 100, {first: 0, second: 0}, as_follower=False)
    first.available = 60
    wait.check(first)
    assert not wait.future.done() and wait in first.fetch_waits
    second.available = 40
    wait.check(second)
    assert wait.future.done() and not first.fetch_waits and not second.fetch_waits
    assert len(timeouts) == 0
    timeouts.close()
