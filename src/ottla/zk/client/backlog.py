"""Requests of the client that could not be sent yet: no connection, or too many in flight."""

from __future__ import annotations

import asyncio
from collections import deque

from ottla.metadata.store import ConnectionLossError, StoreError
from ottla.zk.client.connection import Connection
from ottla.zk.client.request import Request

# Requests that may wait; more than this is a runaway.
MAX_WAITING = 100_000


class Backlog:
    """In the order of the calls. Without a connection it is kept for one session time-out."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._patience: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        if len(self._requests) >= MAX_WAITING:
            request.future.set_exception(ConnectionLossError(request.path))
        else:
            self._requests.append(request)

    def send(self, connection: Connection) -> None:
        """Sends as many as there is room for."""
        while self._requests and connection.has_room:
            request = self._requests.popleft()
            # A caller that gave up meanwhile was cancelled; what was not sent need not be.
            if not request.future.done():
                connection.submit(request)

    def fail(self, error: type[StoreError]) -> None:
        while self._requests:
            request = self._requests.popleft()
            if not request.future.done():
                request.future.set_exception(error(request.path))

    def wait_at_most(self, timeout_ms: float) -> None:
        """Whatever is still here then fails; a time-out that already runs stays."""
        if self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(timeout_ms / 1000, self._lose_patience)

    def stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self.fail(ConnectionLossError)
