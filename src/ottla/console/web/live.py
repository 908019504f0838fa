"""Live news: server-sent events from sources that are polled only while somebody looks.

All who look at the same thing with the same rights share one poller, so that ten open pages cost
the brokers what one costs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import msgspec

from ottla.console.web.failures import ApiError, from_exception

logger = logging.getLogger(__name__)

MAX_WATCHERS = 64
# A browser that does not take its news: it connects again and gets the whole picture.
_MAX_BEHIND = 64
_PING_S = 15.0
_PING = b": still here\n\n"


class Source(Protocol):
    """What one poller asks."""

    async def poll(self) -> Any | None:
        """The news since it was asked last, for everybody; None where there are none."""
        ...

    def whole(self) -> Any | None:
        """What somebody who comes now has to know first; None before the first poll."""
        ...


class Snapshots:
    """A source whose news is always the whole picture: told when it is another one."""

    def __init__(self, take: Callable[[], Awaitable[Any]]) -> None:
        self._take = take
        self._last: Any = None

    async def poll(self) -> Any | None:
        picture = await self._take()
        if picture == self._last:
            return None
        self._last = picture
        return picture

    def whole(self) -> Any | None:
        return self._last


class Feeds:
    """The pollers of one access, by what is looked at. The one owner of them."""

    def __init__(self) -> None:
        self._pollers: dict[tuple[str, str], _Poller] = {}
        self._is_closed = False

    @property
    def watchers(self) -> int:
        return sum(len(poller.watchers) for poller in self._pollers.values())

    def watch(
        self, name: str, key: str, open_source: Callable[[], Source], interval_s: float
    ) -> AsyncIterator[bytes]:
        """Events as bytes of `text/event-stream`, until the browser has gone. `key` is what is
        looked at within the feed `name`."""
        if self.watchers >= MAX_WATCHERS:
            raise ApiError(429, "TOO_MANY_WATCHERS", "Too many pages look at once: close some.")
        if self._is_closed:
            raise ApiError(401, "NO_SESSION", "Ask GET /api/v1/session first.")
        return self._events((name, key), lambda: _Poller(name, open_source(), interval_s))

    async def _events(
        self, key: tuple[str, str], make: Callable[[], _Poller]
    ) -> AsyncIterator[bytes]:
        """Nothing is kept before the first event is asked for: a browser that has gone by then
        never does."""
        if self.watchers >= MAX_WATCHERS or self._is_closed:
            return
        news: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_BEHIND)
        poller = self._pollers.get(key)
        if poller is None:
            poller = self._pollers[key] = make()
        poller.join(news)
        try:
            while True:
                try:
                    async with asyncio.timeout(_PING_S):
                        event = await news.get()
                except TimeoutError:
                    event = _PING
                if event is None:
                    return
                yield event
        finally:
            poller.leave(news)
            if not poller.watchers and self._pollers.get(key) is poller:
                del self._pollers[key]
                poller.stop()

    async def close(self) -> None:
        self._is_closed = True
        for poller in tuple(self._pollers.values()):
            poller.end()
        self._pollers.clear()


class _Poller:
    def __init__(self, name: str, source: Source, interval_s: float) -> None:
        self._name = name
        self._source = source
        self._interval_s = interval_s
        self.watchers: list[asyncio.Queue[bytes | None]] = []
        self._problem: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    def join(self, news: asyncio.Queue[bytes | None]) -> None:
        self.watchers.append(news)
        whole = self._source.whole()
        if whole is not None:
            news.put_nowait(_event("whole", whole))
        if self._problem is not None:
            news.put_nowait(self._problem)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def leave(self, news: asyncio.Queue[bytes | None]) -> None:
        if news in self.watchers:
            self.watchers.remove(news)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """No more news, for anybody."""
        self.stop()
        for news in tuple(self.watchers):
            _cut(news)

    async def _run(self) -> None:
        is_first = True
        while True:
            try:
                found = await self._source.poll()
                if self._problem is not None:
                    self._problem = None
                    self._tell(_event("mended", {}))
                if found is not None:
                    self._tell(_event("whole" if is_first else "news", found))
                    is_first = False
            except Exception as error:
                self._tell_problem(error)
            await asyncio.sleep(self._interval_s)

    def _tell_problem(self, error: Exception) -> None:
        failure = from_exception(error)
        if failure is None:
            logger.exception("the feed %s failed", self._name)
            failure = ApiError(500, "CONSOLE_FAILED", "The console's log says why.")
        problem = _event("problem", failure.to_json()["error"])
        if problem != self._problem:
            self._problem = problem
            self._tell(problem)

    def _tell(self, event: bytes) -> None:
        for news in tuple(self.watchers):
            try:
                news.put_nowait(event)
            except asyncio.QueueFull:
                self.leave(news)
                _cut(news)


def _cut(news: asyncio.Queue[bytes | None]) -> None:
    while not news.empty():
        news.get_nowait()
    news.put_nowait(None)


def _event(name: str, value: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))
