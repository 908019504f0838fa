"""The turns of one process's event loop where what it does takes time, as libuv has them.

A turn runs what was ready when it began (callbacks, timers, tasks), then asks the kernel which
sockets are readable and serves each of them once, in the order in which they became readable. If
there were as many as one question may return, it asks again, up to 48 times (`uv__io_poll`), before
the next turn begins: what became ready meanwhile waits.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.simulation.loop import Process, SimulationLoop
    from ottla.simulation.scenario import SocketPlan

# How often libuv asks again.
_POLLS = 48


class _Work(NamedTuple):
    handle: asyncio.Handle
    cost_us: tuple[float, float]


class Turns:
    """What a process has to do, one after the other: each thing begins when the one before it has
    had its time. A process that was killed does nothing more, one that is paused goes on later."""

    def __init__(self, loop: SimulationLoop, process: Process, plan: SocketPlan, seed: str) -> None:
        self._loop = loop
        self._plan = plan
        self._random = random.Random(f"{seed}/turns")
        # Its own: the handles that it runs are entered in others.
        self._context = process.context.copy()
        self._kernel = Context()
        self._ready: deque[asyncio.Handle] = deque()
        self._readable: deque[asyncio.Handle] = deque()
        self._order = self._turns()
        self._busy_until = 0.0
        # While there is something to do. The loop runs this one itself; every other handle of the
        # process is brought here.
        self.next_step: asyncio.Handle | None = None

    def add(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)
        self._arm()

    def readable_at(self, when: float, handle: asyncio.Handle) -> asyncio.TimerHandle:
        return self._loop.call_at(when, self.readable, handle, context=self._kernel)

    def readable(self, handle: asyncio.Handle) -> None:
        self._readable.append(handle)
        self._arm()

    def _arm(self) -> None:
        if self.next_step is None:
            when = max(self._busy_until, self._loop.time())
            self.next_step = self._loop.call_at(when, self._step, context=self._context)

    def _step(self) -> None:
        work = next(self._order)
        if not work.handle.cancelled():
            self._loop.spend(self._random.uniform(*work.cost_us) / 1e6)
            work.handle._run()
        self._busy_until = self._loop.rest()
        self.next_step = None
        if self._ready or self._readable:
            self._arm()

    def _turns(self) -> Iterator[_Work]:
        """The order of everything; asked only while there is something."""
        plan = self._plan
        while True:
            for _ in range(len(self._ready)):
                yield _Work(self._ready.popleft(), plan.callback_us)
            for _ in range(_POLLS):
                found = min(len(self._readable), plan.events)
                for _ in range(found):
                    yield _Work(self._readable.popleft(), plan.read_us)
                if found < plan.events:
                    break
