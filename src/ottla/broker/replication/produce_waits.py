"""Produce requests that wait for followers, in the queue of each partition (DelayedProduce)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ottla.broker.replication.timeouts import Timeouts
from ottla.errors import ErrorCode
from ottla.types import TopicPartition


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
        # Done already: whoever waited for it was cancelled, and the queues do not know that yet.
        if not self.done:
            for tp in self._pending:
                self.errors[tp] = ErrorCode.REQUEST_TIMED_OUT
            self._pending.clear()
            self.future.set_result(None)
        for queue in self._queues:
            queue.sweep()


class ProduceQueue:
    """Produce requests that wait for one partition, by the offset they need.

    Some of them may have timed out already; those never outnumber the others for long, and count
    until they are swept out (as in Kafka's PurgatorySize).
    """

    __slots__ = ("_sweeps", "_tp", "_waits")

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp
        self._waits: deque[tuple[int, ProduceWaiter]] = deque()
        # Since all of the queue was looked at.
        self._sweeps = 0

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
        """One of them may be done. When thousands time out this is called for each: all of the
        queue is looked at only once half as many were told of as it has entries."""
        waits = self._waits
        while waits and waits[0][1].done:
            waits.popleft()
        self._sweeps += 1
        if self._sweeps * 2 > len(waits):
            self._waits = deque(entry for entry in waits if not entry[1].done)
            self._sweeps = 0
