"""One timer for all groups: a heap of wake-up times, moved lazily.

A key is woken at or after the earliest time it asked for. Asking for a later time than the one
already set costs a comparison, which is what every heartbeat does; whoever is woken early looks
at its own deadlines and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

from ottla.runtime import Clock


class Deadlines:
    def __init__(self, clock: Clock, wake: Callable[[str], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._heap: list[tuple[float, str]] = []
        # The wake-up that counts; heap entries that differ from it are stale.
        self._due: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def schedule(self, key: str, at_ms: float) -> None:
        if self._due.get(key, float("inf")) <= at_ms:
            return
        self._due[key] = at_ms
        heappush(self._heap, (at_ms, key))
        self._arm()

    def forget(self, key: str) -> None:
        self._due.pop(key, None)

    def run_due(self) -> None:
        """Wakes every key whose time has come."""
        now = self._clock.monotonic_ms()
        due: list[str] = []
        while self._heap and (self._heap[0][0] <= now or self._is_stale(self._heap[0])):
            entry = heappop(self._heap)
            if not self._is_stale(entry):
                del self._due[entry[1]]
                due.append(entry[1])
        for key in due:
            self._wake(key)
        self._arm()

    def close(self) -> None:
        self._heap.clear()
        self._due.clear()
        self._arm()

    def _is_stale(self, entry: tuple[float, str]) -> bool:
        return self._due.get(entry[1]) != entry[0]

    def _arm(self) -> None:
        """Sets the one timer to the head of the heap."""
        if self._timer is not None and self._heap and self._timer_at == self._heap[0][0]:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_at = self._heap[0][0]
            delay_ms = max(self._timer_at - self._clock.monotonic_ms(), 0.0)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.run_due()
