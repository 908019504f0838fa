"""Requests that wait: produce for replication, fetch for data (DelayedProduce, DelayedFetch).

A waiter hangs on the partitions it waits for and is looked at when one of them moves. Time-outs
share one heap and one timer of the event loop, however many waiters there are.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

from ottla.errors import ErrorCode
from ottla.types import TopicPartition

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


class ProduceWaiter(Protocol):
    """What hangs in a partition's queue."""

    @property
    def done(self) -> bool: ...

    def add(self, tp: TopicPartition, queue: ProduceQueue) -> None: ...

    def resolve(self, tp: TopicPartition, error: ErrorCode) -> None: ...


class SingleProduceWait:
    """An acks=all produce of one partition. Tells its end to a callback: no future, no task."""

    __slots__ = ("_on_end", "_queue", "_timeout", "_timeouts", "done")

    def __init__(
        self, timeouts: Timeouts, timeout_ms: int, on_end: Callable[[ErrorCode], None]
    ) -> None:
        self._timeouts = timeouts
        self._on_end = on_end
        self._queue: ProduceQueue | None = None
        self.done = False
        self._timeout = timeouts.schedule(max(0, timeout_ms), self._expire)

    def add(self, tp: TopicPartition, queue: ProduceQueue) -> None:
        self._queue = queue

    def resolve(self, tp: TopicPartition, error: ErrorCode) -> None:
        if not self.done:
            self.done = True
            self._timeouts.cancel(self._timeout)
            self._on_end(error)

    def _expire(self) -> None:
        if not self.done:
            self.done = True
            if self._queue is not None:
                self._queue.sweep()
            self._on_end(ErrorCode.REQUEST_TIMED_OUT)


class ProduceWait:
    """An acks=all produce: done when every partition has an answer, or at its time-out."""

    __slots__ = ("_pending", "_queues", "_timeout", "_timeouts", "errors", "future")

    def __init__(self, timeouts: Timeouts, timeout_ms: int) -> None:
        self._timeouts = timeouts
        self._pending: set[TopicPartition] = set()
        self._queues: list[ProduceQueue] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.future: asyncio.Future[None] = timeouts.loop.create_future()
        self._timeout = timeouts.schedule(max(0, timeout_ms), self._expire)

    @property
    def done(self) -> bool:
        return self.future.done()

    def add(self, tp: TopicPartition, queue: ProduceQueue) -> None:
        self._pending.add(tp)
        self._queues.append(queue)

    def resolve(self, tp: TopicPartition, error: ErrorCode) -> None:
        if tp not in self._pending or self.done:
            return
        self._pending.discard(tp)
        self.errors[tp] = error
        if not self._pending:
            self._timeouts.cancel(self._timeout)
            self.future.set_result(None)

    def _expire(self) -> None:
        if self.done:
            return
        for tp in self._pending:
            self.errors[tp] = ErrorCode.REQUEST_TIMED_OUT
        self._pending.clear()
        self.future.set_result(None)
        for queue in self._queues:
            queue.sweep()


class ProduceQueue:
    """Produce requests that wait for one partition, by the offset they need."""

    __slots__ = ("_tp", "_waits")

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp
        self._waits: deque[tuple[int, ProduceWaiter]] = deque()

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, required_offset: int, wait: ProduceWaiter) -> None:
        wait.add(self._tp, self)
        self._waits.append((required_offset, wait))

    def reached(self, high_watermark: int, error: ErrorCode) -> None:
        """Answers those whose offset is reached; appends come in order, so from the front."""
        waits = self._waits
        while waits and (waits[0][0] <= high_watermark or waits[0][1].done):
            _, wait = waits.popleft()
            wait.resolve(self._tp, error)

    def fail_all(self, error: ErrorCode) -> None:
        waits, self._waits = self._waits, deque()
        for _, wait in waits:
            wait.resolve(self._tp, error)

    def sweep(self) -> None:
        if any(wait.done for _, wait in self._waits):
            self._waits = deque(entry for entry in self._waits if not entry[1].done)


class Readable(Protocol):
    """What a waiting fetch asks a partition."""

    def bytes_available(self, offset: int, *, as_follower: bool, committed: bool) -> int: ...

    @property
    def fetch_waits(self) -> dict[FetchWait, None]: ...


class FetchWait:
    """A long poll: done when enough bytes are there, something changed, or at its time-out."""

    __slots__ = (
        "_committed",
        "_held_back",
        "_min_bytes",
        "_offsets",
        "_timeout",
        "_timeouts",
        "as_follower",
        "future",
    )

    def __init__(
        self,
        timeouts: Timeouts,
        max_wait_ms: int,
        min_bytes: int,
        offsets: dict[Readable, int],
        *,
        as_follower: bool,
        committed: bool = False,
        held_back: Collection[Readable] = (),
    ) -> None:
        """Partitions that are `held_back` by a throttle do not end the wait by what they have."""
        self._committed = committed
        self._held_back = held_back
        self._timeouts = timeouts
        self._min_bytes = min_bytes
        self._offsets = offsets
        self.as_follower = as_follower
        self.future: asyncio.Future[None] = timeouts.loop.create_future()
        self._timeout = timeouts.schedule(max_wait_ms, self.complete)
        for partition in offsets:
            partition.fetch_waits[self] = None

    def consider(self, partition: Readable, offset: int) -> None:
        """A partition of the session has moved that had nothing to read before."""
        self._offsets[partition] = offset
        self.check(partition)

    def check(self, partition: Readable) -> None:
        """`partition` has moved."""
        if partition in self._held_back:
            return
        follower, committed = self.as_follower, self._committed
        available = partition.bytes_available(
            self._offsets[partition], as_follower=follower, committed=committed
        )
        if available <= 0:
            return
        if available < self._min_bytes:
            available = sum(
                other.bytes_available(offset, as_follower=follower, committed=committed)
                for other, offset in self._offsets.items()
                if other not in self._held_back
            )
        if available >= self._min_bytes:
            self.complete()

    def complete(self) -> None:
        """Ends the wait; whoever waits reads again and answers."""
        if self.future.done():
            return
        self.future.set_result(None)
        self.detach()

    def detach(self) -> None:
        self._timeouts.cancel(self._timeout)
        for partition in self._offsets:
            partition.fetch_waits.pop(self, None)
