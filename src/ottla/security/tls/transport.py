"""The server's side of TLS on one connection, between the socket and the protocol that it serves.

Not the event loop's own TLS: that accepts whoever connects and says nothing until the handshake is
done. Here a connection counts from its first moment (limits per address, idle sweeps), a handshake
has a deadline, its failure has one line in the log, and a new certificate is used from the next
connection on. It runs on any event loop. OpenSSL works on memory (`ssl.MemoryBIO`); what it holds
is bounded by one read from the socket.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, cast

from ottla.errors import OttlaError

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 10.0
# What is encrypted or read at a time; four records of TLS.
PORTION_BYTES = 64 * 1024
READ_BYTES = 256 * 1024
# Failed handshakes are told in one line for so long.
QUIET_S = 10.0
_HANDSHAKE_RECORD = 22


class TlsEndpoint(Protocol):
    """What the connections of one listening socket share."""

    @property
    def server_context(self) -> ssl.SSLContext:
        """For the next connection."""

    def peer_known(self, inner: asyncio.BaseProtocol, certificate: bytes | None) -> None:
        """The handshake is done; raises OttlaError where the certificate is not good enough."""


class HandshakeLog:
    """Tells of failed handshakes: the first at once, later ones together."""

    def __init__(self, listener: str, now: Callable[[], float] | None = None) -> None:
        self._listener = listener
        self._now = now
        self._quiet_until = 0.0
        self._untold = 0

    def failed(self, peer: str, reason: str) -> None:
        now = asyncio.get_running_loop().time() if self._now is None else self._now()
        if now < self._quiet_until:
            self._untold += 1
            return
        more = f"; {self._untold} more since the last line" if self._untold else ""
        self._quiet_until, self._untold = now + QUIET_S, 0
        logger.info(
            "Failed authentication with %s on listener %s (SSL handshake failed: %s)%s",
            *(peer, self._listener, reason, more),
        )


class TlsServer:
    """Wraps the connections of one listening socket."""

    def __init__(
        self, endpoint: TlsEndpoint, listener: str, timeout_s: float = HANDSHAKE_TIMEOUT_S
    ) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self.log = HandshakeLog(listener)
        # One for all connections: what is read is handed to OpenSSL before the next one reads.
        self.cipher_buffer = memoryview(bytearray(READ_BYTES))
        self.plain_buffer = memoryview(bytearray(READ_BYTES))

    def wrap(self, inner: asyncio.BaseProtocol) -> TlsConnection:
        return TlsConnection(self, inner)


class TlsConnection(asyncio.BufferedProtocol):
    """Decrypts for `inner`, a protocol of either kind. `inner` is told of the connection before the
    handshake and gets its first bytes after it."""

    def __init__(self, server: TlsServer, inner: asyncio.BaseProtocol) -> None:
        self._server = server
        self._inner = inner
        self._is_buffered = isinstance(inner, asyncio.BufferedProtocol)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._raw: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False  # the handshake is done
        self._is_over = False  # closed, or about to be
        self._is_paused = False
        self._is_delivering = False

    @property
    def raw(self) -> asyncio.Transport | None:
        return self._raw

    @property
    def tls(self) -> ssl.SSLObject | None:
        return self._tls

    @property
    def inner(self) -> asyncio.BaseProtocol:
        return self._inner

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def replace_inner(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        self._watch()
        self._inner.connection_made(TlsTransport(self))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.cipher_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        data = self._server.cipher_buffer[:nbytes]
        if self._tls is None:
            if data[0] != _HANDSHAKE_RECORD:
                self._fail("the client does not speak TLS")
                return
            self._tls = self._server.endpoint.server_context.wrap_bio(
                self._incoming, self._outgoing, server_side=True
            )
        self._incoming.write(data)
        if self._is_open or self._shake_hands(self._tls):
            self.deliver()

    def eof_received(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not (self._is_open or self._is_over or self._tls is None):
            self._tell("the client closed the connection")
        self._stop_watch()
        self._is_over = True
        self._raw = self._tls = None
        self._inner.connection_lost(exc)

    # the handshake

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._server.timeout_s, self._time_out)

    def _stop_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._is_paused:
            # The broker is starting, or makes this peer wait: that is not the peer's fault.
            self._watch()
            return
        self._tell(f"not done in {self._server.timeout_s:g} s")
        self.abort()

    def _shake_hands(self, tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            self._fail(_reason(error))
            return False
        self._stop_watch()
        try:
            self._server.endpoint.peer_known(self._inner, tls.getpeercert(binary_form=True))
        except OttlaError as error:
            self._fail(str(error))
            return False
        self._is_open = True
        self._flush()
        return True

    def _fail(self, reason: str) -> None:
        self._tell(reason)
        self._stop_watch()
        self._is_over = True
        self._flush()  # OpenSSL's alert
        if self._raw is not None:
            self._raw.close()

    def _tell(self, reason: str) -> None:
        peer = None if self._raw is None else self._raw.get_extra_info("peername")
        self._server.log.failed("?" if not peer else str(peer[0]), reason)

    # in

    def deliver(self) -> None:
        """Hands on what OpenSSL has, until `inner` pauses or nothing is left."""
        if self._is_delivering:  # `inner` paused and resumed while it was handed something
            return
        self._is_delivering = True
        try:
            while self._is_open and not (self._is_paused or self._is_over):
                if not self._deliver_once():
                    break
        finally:
            self._is_delivering = False
        self._flush()  # answers of TLS itself: new keys

    def _deliver_once(self) -> bool:
        """False where nothing is left for now."""
        tls = self._tls
        if tls is None:
            return False
        if self._is_buffered:
            buffer = memoryview(cast("asyncio.BufferedProtocol", self._inner).get_buffer(-1))
        else:
            buffer = self._server.plain_buffer
        filled, ended, size = 0, False, len(buffer)
        try:
            while filled < size:
                count = tls.read(size - filled, buffer[filled:])
                if not count:
                    ended = True
                    break
                filled += cast("int", count)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            ended = True  # the peer said good-bye, or sent what is no TLS
        if filled:
            if self._is_buffered:
                cast("asyncio.BufferedProtocol", self._inner).buffer_updated(filled)
            else:
                cast("asyncio.Protocol", self._inner).data_received(bytes(buffer[:filled]))
        if ended:
            self.close()
        return filled == size and not ended

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            if self._raw is not None:
                self._raw.pause_reading()

    def resume(self) -> None:
        if not self._is_paused:
            return
        self._is_paused = False
        if self._raw is not None and not self._is_over:
            self._raw.resume_reading()
            if not self._is_open:
                self._stop_watch()
                self._watch()
            else:
                # Not at once: whoever resumes is in the middle of its own work.
                asyncio.get_running_loop().call_soon(self.deliver)

    # out

    def write(self, chunks: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._tls is None or self._raw is None or not self._is_open or self._is_over:
            return
        tls, encrypted = self._tls, []
        try:
            for portion in _portions(chunks):
                tls.write(portion)
                encrypted.append(self._outgoing.read())
        except ssl.SSLError:
            self.abort()
            return
        if encrypted:
            self._raw.writelines(encrypted)

    def _flush(self) -> None:
        if self._outgoing.pending and self._raw is not None:
            self._raw.write(self._outgoing.read())

    def close(self) -> None:
        if self._is_over or self._raw is None:
            return
        if self._is_open and self._tls is not None:
            # Says good-bye; the peer's own is not waited for.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._stop_watch()
        self._is_over = True
        self._raw.close()

    def abort(self) -> None:
        self._stop_watch()
        self._is_over = True
        if self._raw is not None:
            self._raw.abort()


class TlsTransport(asyncio.Transport):
    """The transport that the inner protocol sees: the socket's, encrypted."""

    def __init__(self, connection: TlsConnection) -> None:
        super().__init__()
        self._connection = connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._connection.tls
        if name == "socket":
            # Whoever wrote to it would write in plain text.
            return default
        raw = self._connection.raw
        return default if raw is None else raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._connection.write((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._connection.write(list_of_data)

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._connection.pause()

    def resume_reading(self) -> None:
        self._connection.resume()

    def is_reading(self) -> bool:
        return not (self._connection.is_paused or self._connection.is_over)

    def is_closing(self) -> bool:
        return self._connection.is_over

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._connection.replace_inner(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._connection.inner

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._connection.raw is not None:
            self._connection.raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        raw = self._connection.raw
        return 0 if raw is None else raw.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        raw = self._connection.raw
        return (0, 0) if raw is None else raw.get_write_buffer_limits()


def _portions(
    chunks: Iterable[bytes | bytearray | memoryview],
) -> Iterable[bytes | memoryview]:
    """Small chunks together, large ones in parts: few records, and little memory for each."""
    small: list[bytes | bytearray | memoryview] = []
    size = 0
    for chunk in chunks:
        length = len(chunk)
        if size + length <= PORTION_BYTES:
            small.append(chunk)
            size += length
            continue
        if small:
            yield b"".join(small)
            small, size = [], 0
        view = memoryview(chunk)
        if length <= PORTION_BYTES:
            small, size = [view], length
            continue
        for start in range(0, length, PORTION_BYTES):
            yield view[start : start + PORTION_BYTES]
    if size:
        yield b"".join(small)


def _reason(error: ssl.SSLError | ssl.CertificateError) -> str:
    """OpenSSL's words without the place in its source."""
    reason = getattr(error, "reason", None)
    verify = getattr(error, "verify_message", "")
    words = str(reason or error).replace("_", " ").lower()
    return f"{words}: {verify}" if verify else words
