"""Whose turn it is: work that is too long for one turn of the event loop goes on in slices.

Everybody who has more to do waits in one queue, and the queue as a whole has one slice of each
turn: whoever asks for little is served between two slices, however many ask for much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ottla.bounds.turns import TURN_MS
from ottla.runtime import Clock


class HasMore(Protocol):
    def go_on(self, until_ms: float) -> None:
        """Does some of its work, about until then, and waits again where some is left."""


class Turns:
    def __init__(self, clock: Clock, is_blocked: Callable[[], bool]) -> None:
        """While it `is_blocked` nobody has a turn; whoever ends that calls `wake`."""
        self._clock = clock
        self._is_blocked = is_blocked
        self._waiting: dict[HasMore, None] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def slice_end_ms(self) -> float:
        return self._clock.monotonic_ms() + TURN_MS

    def wait(self, who: HasMore) -> None:
        self._waiting[who] = None
        self.wake()

    def forget(self, who: HasMore) -> None:
        self._waiting.pop(who, None)

    def wake(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        now_ms = self._clock.monotonic_ms()
        until_ms = now_ms + TURN_MS
        # Those who come again have the next slice, also where time stands still (simulation).
        for who in list(self._waiting):
            if now_ms >= until_ms or self._is_blocked():
                break
            if who in self._waiting:
                del self._waiting[who]
                who.go_on(until_ms)
                now_ms = self._clock.monotonic_ms()
        if not self._is_blocked():
            self.wake()
