"""Turns of the event loop for work whose size a client decides.

A handler that loops over what a client listed gives the loop away after a few milliseconds. Those
that wait for their next turn have it one after the other, one in each round of the loop: a hundred
long requests together hold up a short one no longer than a single one does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

TURN_S = 0.005
# The same for those who reckon in milliseconds.
TURN_MS = 1000 * TURN_S


class Turns:
    """One for all requests of a broker. Time is the event loop's; in simulation it stands still
    while code runs, so that nothing there depends on how fast a machine is."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def _now(self) -> Callable[[], float]:
        # Remembered: asking for the loop is a system call in Python 3.11 (getpid).
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time

    async def each(self, items: Iterable[_Item]) -> AsyncIterator[_Item]:
        """The items, one by one; others have their turn in between when it is time."""
        now = self._now
        ends = now() + self._turn_s
        for item in items:
            yield item
            if now() >= ends:
                await self.give()
                ends = now() + self._turn_s

    def start(self, work: Generator[object, None, _Result]) -> Work[_Result]:
        """Begins work that may be left at each `yield`; most of it ends in its first turn."""
        begun = Work(work, self._now, self._turn_s)
        begun.take_turn()
        return begun

    async def finish(self, work: Work[_Result]) -> _Result:
        """Goes on with work until it is done."""
        while not work.is_done:
            await self.give()
            work.take_turn()
        return work.result

    async def give(self) -> None:
        """Lets others go on and waits for the next turn."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._call_next, loop)
        await turn

    def _call_next(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # cancelled meanwhile
                turn.set_result(None)
                break
        self._is_scheduled = bool(waiting)
        if waiting:
            loop.call_soon(self._call_next, loop)


class Work(Generic[_Result]):
    """A generator that is driven in turns; what it raises comes out of the turn."""

    __slots__ = ("_generator", "_now", "_turn_s", "is_done", "result")

    result: _Result

    def __init__(
        self,
        generator: Generator[object, None, _Result],
        now: Callable[[], float],
        turn_s: float,
    ) -> None:
        self._generator = generator
        self._now = now
        self._turn_s = turn_s
        self.is_done = False

    def take_turn(self) -> None:
        generator, now = self._generator, self._now
        ends = now() + self._turn_s
        try:
            next(generator)
            while now() < ends:
                next(generator)
        except StopIteration as stop:
            self.result = stop.value
            self.is_done = True
