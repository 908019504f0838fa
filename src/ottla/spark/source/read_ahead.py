"""Items made on a client's thread and taken by plain code, a few of them ahead."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Generic, NamedTuple, TypeVar

from ottla.client.cluster import RETRY_PAUSE_MS
from ottla.errors import OttlaError
from ottla.spark.loop_thread import LoopClosed, LoopThread

T = TypeVar("T")

# While nobody waits there is no hurry.
_UNHURRIED_PAUSE_S = 1.0


class NothingCame(OttlaError):
    """Whoever waits has waited long enough."""


class _End(NamedTuple):
    """No item follows; `error` is why, where it is not the regular end."""

    error: Exception | None


class ReadAhead(Generic[T]):
    """At most `limit` items are made and not taken yet: the next one is begun when one is taken."""

    def __init__(self, thread: LoopThread, limit: int) -> None:
        self._thread = thread
        self._room = asyncio.Semaphore(limit)  # the loop's
        self._items: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._is_awaited = False
        self._wanted = asyncio.Event()  # the loop's: somebody began to wait

    def begin(self, source: AsyncGenerator[T, None]) -> None:
        self._work = self._thread.begin(self._fill(source))

    async def _fill(self, source: AsyncGenerator[T, None]) -> None:
        end = _End(LoopClosed("the client was closed meanwhile"))
        try:
            async with aclosing(source):
                await self._room.acquire()
                async for item in source:
                    self._items.put(item)
                    await self._room.acquire()
            end = _End(None)
        except Exception as error:
            end = _End(error)
        finally:
            self._items.put(end)

    async def pause(self) -> None:
        """Between attempts, for whoever makes the items: short while somebody waits for one."""
        await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        if not self._is_awaited:
            self._wanted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_UNHURRIED_PAUSE_S):
                    await self._wanted.wait()

    def take(self, timeout_s: float) -> T | None:
        """The next item, None after the last one; raises what ended the work, and NothingCame
        where that is so. Only the time that is spent here counts."""
        if self._items.empty():
            self._is_awaited = True
            self._thread.call(self._wanted.set)
        try:
            item = self._items.get(timeout=timeout_s)
        except queue.Empty:
            raise NothingCame from None
        finally:
            self._is_awaited = False
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return None
        self._thread.call(self._room.release)
        return item

    def close(self) -> None:
        """Whoever does not take all of them says so. Waits for nothing."""
        self._work.cancel()
