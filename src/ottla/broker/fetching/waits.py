"""Fetches that wait for data (DelayedFetch).

A waiter hangs on the partitions it waits for and is looked at when one of them moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from ottla.broker.replication.partition import FetchWaiter
from ottla.broker.replication.timeouts import Timeouts


class Readable(Protocol):
    """What a waiting fetch asks a partition."""

    def bytes_available(self, offset: int, *, as_follower: bool, committed: bool) -> int: ...

    @property
    def fetch_waits(self) -> dict[FetchWaiter, None]: ...


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
