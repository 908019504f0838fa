"""A small HTTP/1.1 responder for `GET /metrics`, one answer per connection.

A page in a browser must not read it: whoever names a host that is not this broker's gets nothing
(DNS rebinding). Peers that send half a request make way for others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, cast

from ottla.security.own_hosts import names_us

if TYPE_CHECKING:
    from ottla.runtime import Network, Server

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_HEAD_BYTES = 16 * 1024
# For a request, and for the answer to be taken.
_HEAD_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 60.0
MAX_CONNECTIONS = 32
_REFUSED = "by this name nobody asks here: use an address, or add the name to {}\n"

# Gives the text after some steps, between which others have their turn.
Render = Callable[[], Generator[None, None, bytes]]


class MetricsServer:
    """Serves what `render` gives, until `close`, to those who ask for one of the `hosts`."""

    def __init__(
        self,
        render: Render,
        hosts: Collection[str] = (),
        *,
        setting: str = "ottla.metrics.hosts",
        documents: Mapping[str, Callable[[], bytes]] | None = None,
    ) -> None:
        """`setting` is the one that `hosts` came from; `documents` are JSON, by path."""
        self._documents = {path.encode(): make for path, make in (documents or {}).items()}
        self._render = render
        self._refused = _REFUSED.format(setting).encode()
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        self._server: Server | None = None
        # In the order of arrival.
        self._open: dict[_Exchange, None] = {}
        # One text for all who ask while it is made.
        self._rendering: asyncio.Task[bytes] | None = None

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
        if self._rendering is not None:
            self._rendering.cancel()

    def admit(self, exchange: _Exchange) -> bool:
        """False where there is no place: all are being answered."""
        if len(self._open) >= MAX_CONNECTIONS:
            oldest = next((other for other in self._open if not other.is_asked), None)
            if oldest is None:
                return False
            self.forget(oldest)
            oldest.end()
        self._open[exchange] = None
        return True

    def forget(self, exchange: _Exchange) -> None:
        self._open.pop(exchange, None)

    async def answer(self, head: bytes) -> bytes:
        """The whole response to a request's head."""
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        hosts = hosts_named(head)
        if len(hosts) > 1 or (not hosts and rest.endswith(b"HTTP/1.1")):
            return _response("400 Bad Request", b"one Host, please\n", method)
        if hosts and not self.is_ours(hosts[0]):
            return _response("403 Forbidden", self._refused, method)
        make = self._documents.get(path)
        if make is not None and method in (b"GET", b"HEAD"):
            return _response("200 OK", make(), method, "application/json")
        if path != b"/metrics":
            return _response("404 Not Found", b"try /metrics\n", method)
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", b"only GET\n", method)
        try:
            body = await self._text()
        except Exception:
            # A number that cannot be had must not end the broker.
            logger.exception("the metrics could not be collected")
            return _response("500 Internal Server Error", b"see the broker's log\n", method)
        return _response("200 OK", body, method)

    def is_ours(self, host: str) -> bool:
        return names_us(host, self._hosts)

    async def _text(self) -> bytes:
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.ensure_future(self._rendered())
        return await asyncio.shield(self._rendering)

    async def _rendered(self) -> bytes:
        steps = self._render()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return cast("bytes", done.value)
            await asyncio.sleep(0)


class _Exchange(asyncio.Protocol):
    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None

    @property
    def is_asked(self) -> bool:
        """The whole request is there."""
        return self._answering is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._end_after(_HEAD_TIMEOUT_S)
        if not self._server.admit(self):
            self.end()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing() or self.is_asked:
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if 0 <= end <= MAX_HEAD_BYTES:
            self._end_after(_ANSWER_TIMEOUT_S)
            self._answering = asyncio.ensure_future(self._answer(bytes(self._head[:end])))
        elif len(self._head) > MAX_HEAD_BYTES:
            self.end()

    def eof_received(self) -> bool:
        return self.is_asked  # whoever asked may close its own side

    async def _answer(self, head: bytes) -> None:
        answer = await self._server.answer(head)
        if self._transport is not None:
            self._transport.write(answer)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._server.forget(self)

    def _end_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def hosts_named(head: bytes) -> list[str]:
    """The values of all Host lines."""
    found = []
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"host":
            found.append(value.strip().decode("latin-1"))
    return found


def _response(status: str, body: bytes, method: bytes, content_type: str = CONTENT_TYPE) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else body)
