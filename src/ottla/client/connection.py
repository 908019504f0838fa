"""One TCP connection to a broker: requests are pipelined, answers matched in order.

Kafka answers the requests of one connection in the order they came, so the answers are matched
against a queue; a correlation id that does not fit ends the connection. Where the broker limits the
session (KIP-368), a request that comes late in it waits until the user was shown once more: between
the handshake and the last token a broker takes nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.errors import InvariantViolated, KafkaError
from ottla.runtime import Network
from ottla.wire import framing, messages
from ottla.wire.codec import Message, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.security.sasl.exchange import Credentials

# A fetch response may hold up to replica.fetch.response.max.bytes plus one large batch.
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
DEFAULT_TIMEOUT_MS = 30_000


# A request later in the session than this is held back until the user was shown again; Java
# chooses a moment between 85 and 95 per cent.
_SESSION_SHARE = 0.85


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
        # When the user has to be shown again, by the loop's clock; None for never.
        self._authenticate_at: float | None = None
        self._credentials: Credentials | None = None
        self._authenticate_version = 0
        # Requests that wait until that is done; None while nothing has to wait.
        self._held: list[Callable[[], None]] | None = None
        self._renewal: asyncio.Task[None] | None = None

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
        sasl: Credentials | None = None,
    ) -> Connection:
        """Connects and, with `sasl`, says who this is; raises OSError or TimeoutError, even where
        the other side refuses the user."""
        async with asyncio.timeout(timeout_ms / 1000):
            _, protocol = await network.connect(
                lambda: cls(client_id), host, port, ssl_context=ssl_context
            )
            connection = cast("Connection", protocol)
            if sasl is not None:
                try:
                    await connection.authenticate(sasl, timeout_ms=timeout_ms)
                except KafkaError as error:
                    raise ConnectionError(f"the other side refuses this user: {error}") from error
        return connection

    async def authenticate(
        self, credentials: Credentials, version: int = 1, *, timeout_ms: float = DEFAULT_TIMEOUT_MS
    ) -> None:
        """Says who this is, now and whenever the session nears its end, with SaslAuthenticate of
        that version. Where it fails the connection is closed; raises KafkaError where either side
        refuses the other."""
        from ottla.client.sasl import authenticate  # few connections need it

        async def send(message: Message, version: int) -> Any:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._write(message, version)

        began = asyncio.get_running_loop().time()
        try:
            lifetime_ms = await authenticate(send, credentials, version)
        except BaseException as error:
            self.close(f"not authenticated: {error}")
            raise
        self._credentials, self._authenticate_version = credentials, version
        share_s = lifetime_ms / 1000 * _SESSION_SHARE
        self._authenticate_at = began + share_s if lifetime_ms > 0 else None

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
        """Writes the request now, or as soon as the user was shown again; the future gives the
        answer or ConnectionError."""
        if self._authenticate_at is not None and self._must_hold(self._authenticate_at):
            return self._hold(message, version)
        return self._write(message, version)

    def _write(
        self, message: Message, version: int, future: asyncio.Future[Any] | None = None
    ) -> asyncio.Future[Any]:
        if self._transport is None:
            raise ConnectionError(self._close_reason or "not connected")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        chunks = framing.encode_request(message, version, correlation_id, self._client_id)
        if self._loop is None:
            # Remembered: asking for it is a system call in Python 3.11 (getpid).
            self._loop = asyncio.get_running_loop()
        if future is None:
            future = self._loop.create_future()
        response_class = messages.response_class(message.API_KEY)
        self._pending.append(_Pending(correlation_id, response_class, version, future))
        self._transport.writelines(chunks)
        return future

    def send_without_answer(self, message: Message, version: int) -> None:
        """For Produce with acks=0, the one request that is never answered."""
        if self._transport is None:
            raise ConnectionError(self._close_reason or "not connected")
        if self._authenticate_at is not None and self._must_hold(self._authenticate_at):
            self._hold_back(lambda: self.send_without_answer(message, version))
            return
        self._transport.writelines(framing.encode_request(message, version, 0, self._client_id))

    # the end of a session

    def _must_hold(self, authenticate_at: float) -> bool:
        if self._transport is None:
            return False
        return self._held is not None or asyncio.get_running_loop().time() >= authenticate_at

    def _hold(self, message: Message, version: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def write() -> None:
            if future.done():
                return  # given up meanwhile
            try:
                self._write(message, version, future)
            except ConnectionError as error:
                future.set_exception(error)
                # Nobody may be waiting any more: that is not an error.
                future.exception()

        self._hold_back(write)
        return future

    def _hold_back(self, write: Callable[[], None]) -> None:
        """Writes after the user was shown again, which begins with the first that has to wait."""
        if self._held is None:
            self._held = []
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
        self._held.append(write)

    async def _renew(self) -> None:
        credentials = self._credentials
        if credentials is None:
            raise InvariantViolated("a session has an end but no user")
        try:
            # Closes the connection where it fails, and with it what waits.
            with suppress(KafkaError, OSError):
                await self.authenticate(credentials, self._authenticate_version)
        finally:
            held, self._held, self._renewal = self._held or [], None, None
            for write in held:
                with suppress(ConnectionError):
                    write()

    def close(self, reason: str = "closed by this side") -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            self._close_reason = reason
            transport.abort()
        self._fail_pending(reason)
        if self._renewal is not None:
            self._renewal.cancel()

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
        if self._renewal is not None:
            self._renewal.cancel()

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
