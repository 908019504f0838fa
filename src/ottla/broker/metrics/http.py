"""A small HTTP/1.1 responder for `GET /metrics`, one answer per connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ottla.runtime import Network, Server

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MAX_HEAD_BYTES = 16 * 1024
_TIMEOUT_S = 10.0
_MAX_CONNECTIONS = 32


class MetricsServer:
    """Serves what `render` gives, until `close`."""

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._server: Server | None = None
        self._open: set[_Exchange] = set()

    @property
    def port(self) -> int:
        return -1 if self._server is None else self._server.port

    async def start(self, network: Network, host: str, port: int) -> None:
        self._server = await network.listen(lambda: _Exchange(self), host, port)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        for exchange in tuple(self._open):
            exchange.end()

    def admit(self, exchange: _Exchange) -> bool:
        self._open.add(exchange)
        return len(self._open) <= _MAX_CONNECTIONS

    def forget(self, exchange: _Exchange) -> None:
        self._open.discard(exchange)

    def answer(self, head: bytes) -> bytes:
        """The whole response to a request's head."""
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if path != b"/metrics":
            return _response("404 Not Found", b"try /metrics\n", method)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET\n", method)
        try:
            body = self._render()
        except Exception:
            # A number that cannot be had must not end the broker.
            logger.exception("the metrics could not be collected")
            return _response("500 Internal Server Error", b"see the broker's log\n", method)
        return _response("200 OK", body, method)


class _Exchange(asyncio.Protocol):
    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(_TIMEOUT_S, self.end)
        if not self._server.admit(self):
            self.end()

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self._transport is None or self._transport.is_closing():
            return
        if b"\r\n\r\n" in self._head:
            self._transport.write(self._server.answer(self._head))
            self._transport.close()
        elif len(self._head) > _MAX_HEAD_BYTES:
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server.forget(self)

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _response(status: str, body: bytes, method: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
