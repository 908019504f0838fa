"""How long one connection may keep the console busy by doing nothing.

uvicorn bounds how many there are and how long one is kept between requests, not how long a request
takes to come nor an answer to be taken: a few hundred idle sockets would shut everybody else out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

# From the first byte, or from the connection on, until the last byte of the body.
REQUEST_S = 60.0
# Whoever takes less than this of an answer in such a time is taken for gone.
TAKEN_BYTES = 64 * 1024
TAKEN_S = 30.0
# Requests above uvicorn's own limit are answered 503; more connections than that are not taken
# where all are busy.
SPARE_CONNECTIONS = 64


class Connection(H11Protocol):
    """One socket of a browser."""

    _request_timer: asyncio.TimerHandle | None = None
    _taken_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        most = self.limit_concurrency
        if most is not None and len(self.connections) >= most:
            waiting = self._longest_waiting()
            if waiting is not None:
                waiting.transport.abort()
            elif len(self.connections) > most + SPARE_CONNECTIONS:
                transport.abort()
                return
        self._watch_request()

    def _longest_waiting(self) -> Connection | None:
        """Of those whose request has not come: whoever holds many makes room for who asks."""
        found: tuple[float, Connection] | None = None
        for other in self.connections:
            if not isinstance(other, Connection) or other.transport.is_closing():
                continue
            timer = other._request_timer
            if timer is not None and (found is None or timer.when() < found[0]):
                found = timer.when(), other
        return None if found is None else found[1]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_answer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_request()
        self._forget_answer()
        super().connection_lost(exc)

    def _watch_request(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget_request()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _watch_answer(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._taken_timer = self.loop.call_later(TAKEN_S, self._check_taken, left)

    def _check_taken(self, left_before: int) -> None:
        if left_before - self.transport.get_write_buffer_size() < TAKEN_BYTES:
            self.transport.abort()
        else:
            self._watch_answer()

    def _forget_request(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
        self._request_timer = None

    def _forget_answer(self) -> None:
        if self._taken_timer is not None:
            self._taken_timer.cancel()
        self._taken_timer = None
