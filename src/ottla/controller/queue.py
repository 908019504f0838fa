"""The one queue through which everything reaches the controller, in order, one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import Any, NamedTuple

from ottla.controller.events import Event
from ottla.errors import ErrorCode, KafkaError

# Watch events are merged and answers are one per broker, so only calls need a limit.
MAX_WAITING_CALLS = 10_000


class Queued(NamedTuple):
    event: Event
    reply: asyncio.Future[Any] | None = None
    since_s: float = 0.0


class EventQueue:
    def __init__(self, max_waiting_calls: int = MAX_WAITING_CALLS) -> None:
        self._waiting: deque[Queued] = deque()
        self._merged: set[Event] = set()
        self._calls = 0
        self._max_waiting_calls = max_waiting_calls
        self._not_empty = asyncio.Event()
        # For operators: how many events were taken, and how long they had waited altogether.
        self.taken = 0
        self.waited_ms = 0.0
        # The event that is being worked on, and since when.
        self.in_hand: Queued | None = None
        self.in_hand_since_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: Event) -> None:
        """Queues the event unless an equal one waits already: its handler will see both changes."""
        if event in self._merged:
            return
        self._merged.add(event)
        self._append(Queued(event))

    def put_first(self, event: Event) -> None:
        self._merged.add(event)
        self._waiting.appendleft(Queued(event))
        self._not_empty.set()

    async def call(self, event: Event) -> Any:
        """Queues an event that somebody waits for and returns its result."""
        if self._calls >= self._max_waiting_calls:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller's queue is full")
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls += 1
        self._append(Queued(event, reply))
        return await reply

    async def get(self) -> Queued:
        while not self._waiting:
            self._not_empty.clear()
            await self._not_empty.wait()
        queued = self._waiting.popleft()
        self._merged.discard(queued.event)
        if queued.reply is not None:
            self._calls -= 1
        self.taken += 1
        self.in_hand, self.in_hand_since_s = queued, asyncio.get_running_loop().time()
        if queued.since_s:
            self.waited_ms += (self.in_hand_since_s - queued.since_s) * 1000
        return queued

    def done(self) -> None:
        """The event in hand is dealt with."""
        self.in_hand = None

    def first(self, count: int) -> list[Queued]:
        """Those that come next."""
        return list(islice(self._waiting, count))

    def drain(self) -> list[Queued]:
        """Empties the queue: whatever waited was meant for a controller that is no more."""
        drained = list(self._waiting)
        self._waiting.clear()
        self._merged.clear()
        self._calls = 0
        return drained

    def _append(self, queued: Queued) -> None:
        self._waiting.append(queued._replace(since_s=asyncio.get_running_loop().time()))
        self._not_empty.set()
