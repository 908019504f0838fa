"""Time-outs of requests that wait: one heap and one timer of the event loop, however many wait."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

# Timers this close together are one: a long poll may end this much late.
_COARSENESS_S = 0.002
# Finished entries are swept out of the heap once they outnumber the live ones by this many.
_SWEEP_AFTER = 1024


class TimeoutEntry:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback


class Timeouts:
    """Many deadlines, one timer."""

    def __init__(self) -> None:
        # By deadline, then in the order of their coming.
        self._heap: list[tuple[float, int, TimeoutEntry]] = []
        self._order = 0
        self._finished = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._heap) - self._finished

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        # Remembered: asking for it is a system call in Python 3.11 (getpid).
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def schedule(self, delay_ms: float, callback: Callable[[], None]) -> TimeoutEntry:
        loop = self.loop
        self._order += 1
        entry = TimeoutEntry(callback)
        deadline = loop.time() + delay_ms / 1000
        heapq.heappush(self._heap, (deadline, self._order, entry))
        if self._timer is None or deadline < self._timer_at - _COARSENESS_S:
            self._arm(loop)
        return entry

    def cancel(self, entry: TimeoutEntry) -> None:
        if entry.callback is None:
            return
        entry.callback = None
        self._finished += 1
        if self._finished > _SWEEP_AFTER and self._finished * 2 > len(self._heap):
            self._heap = [kept for kept in self._heap if kept[2].callback is not None]
            heapq.heapify(self._heap)
            self._finished = 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0] + _COARSENESS_S / 2
        self._timer = loop.call_at(self._timer_at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._heap and (self._heap[0][2].callback is None or self._heap[0][0] <= now):
            entry = heapq.heappop(self._heap)[2]
            callback, entry.callback = entry.callback, None
            if callback is None:
                self._finished -= 1
            else:
                callback()
        if self._heap and self._timer is None:
            self._arm(loop)
