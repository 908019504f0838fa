"""One TCP connection to a broker: requests are pipelined, answers matched in order.

Kafka answers the requests of one connection in the order they came, so the answers are matched
against a queue; a correlation id that does not fit ends the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.errors import KafkaError
from ottla.runtime import Network
from ottla.wire import framing, messages
from ottla.wire.codec import Message, WireError

if TYPE_CHECKING:
    from ottla.security.sasl import PlainCredentials

# A fetch response may hold up to replica.fetch.response.max.bytes plus one large batch.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
DEFAULT_TIMEOUT_MS = 30_000


class _Pending(NamedTuple):
    correlation_id: int
    response_class: type[Message]
    version: int
    future: asyncio.Future[Any]


class Connection(asyncio.Protocol):
    """Made by `open`. After `closed` is true every `send` raises ConnectionError."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._frames = framing.FrameReader(MAX_RESPONSE_BYTES)
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._close_reason: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        ssl_context: ssl.SSLContext | None = None,
        sasl: PlainCredentials | None = None,
    ) -> Connection:
        """Connects and, with `sasl`, says who this is; raises OSError or TimeoutError, even where
        the other side refuses the user."""
        async with asyncio.timeout(timeout_ms / 1000):
            _, protocol = await network.connect(
                lambda: cls(client_id), host, port, ssl_context=ssl_context
            )
            connection = cast("Connection", protocol)
            if sasl is not None:
                await connection._authenticate(sasl, timeout_ms)
        return connection

    async def _authenticate(self, credentials: PlainCredentials, timeout_ms: float) -> None:
        from ottla.client.sasl import authenticate  # few connections need it

        try:
            await authenticate(self, credentials, timeout_ms)
        except BaseException as error:
            self.close("not authenticated")
            if isinstance(error, KafkaError):
                raise ConnectionError(f"the other side refuses this user: {error}") from error
            raise

    @property
    def closed(self) -> bool:
        return self._transport is None

    async def send(
        self, message: Message, version: int, *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> Any:
        """The decoded answer. A request that times out closes the connection: its answer could
        come later and there is nobody left to take it."""
        future = self.send_nowait(message, version)
        # Not asyncio.timeout, which costs a follower's fetch as much as its encoding.
        timer = future.get_loop().call_later(timeout_ms / 1000, self._time_out, future)
        try:
            return await future
        finally:
            timer.cancel()

    def _time_out(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            future.set_exception(TimeoutError("a request timed out"))
            self.close("a request timed out")

    def send_nowait(self, message: Message, version: int) -> asyncio.Future[Any]:
        """Writes the request now; the future gives the answer or ConnectionError."""
        if self._transport is None:
            raise ConnectionError(self._close_reason or "not connected")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        chunks = framing.encode_request(message, version, correlation_id, self._client_id)
        if self._loop is None:
            # Remembered: asking for it is a system call in Python 3.11 (getpid).
            self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = self._loop.create_future()
        response_class = messages.response_class(message.API_KEY)
        self._pending.append(_Pending(correlation_id, response_class, version, future))
        self._transport.writelines(chunks)
        return future

    def send_without_answer(self, message: Message, version: int) -> None:
        """For Produce with acks=0, the one request that is never answered."""
        if self._transport is None:
            raise ConnectionError(self._close_reason or "not connected")
        self._transport.writelines(framing.encode_request(message, version, 0, self._client_id))

    def close(self, reason: str = "closed by this side") -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            self._close_reason = reason
            transport.abort()
        self._fail_pending(reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._take_answer(frame)
        except (WireError, IndexError) as error:
            self.close(f"the other side sent bytes that are not a Kafka response: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail_pending(f"connection lost: {exc or 'closed by the other side'}")

    def _take_answer(self, frame: memoryview) -> None:
        pending = self._pending.popleft()
        try:
            correlation_id, offset = framing.decode_response_header(
                frame, pending.response_class.API_KEY, pending.version
            )
            if correlation_id != pending.correlation_id:
                raise WireError(
                    f"correlation id {correlation_id} where {pending.correlation_id} was due"
                )
            response, _ = pending.response_class.decode(frame, pending.version, offset)
        except WireError:
            self._pending.appendleft(pending)
            raise
        if not pending.future.done():
            pending.future.set_result(response)

    def _fail_pending(self, reason: str) -> None:
        self._close_reason = self._close_reason or reason
        while self._pending:
            pending = self._pending.popleft()
            if not pending.future.done():
                pending.future.set_exception(ConnectionError(reason))
                # Nobody may be waiting any more (a cancelled send): that is not an error.
                pending.future.exception()
