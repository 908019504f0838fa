"""The client's session: kept over lost connections and server restarts, replaced when it expires.

It looks for a server, says who it is, sets watches again and pings; what is asked meanwhile waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

from ottla.metadata.store import (
    AuthFailedError,
    BadArgumentsError,
    EventType,
    SessionExpiredError,
    SessionListener,
    SessionState,
    StoreError,
    WatchEvent,
)
from ottla.runtime import Runtime
from ottla.zk import jute
from ottla.zk.client.backlog import Backlog
from ottla.zk.client.chroot import Chroot
from ottla.zk.client.connection import Connection
from ottla.zk.client.multi_read import MultiReads
from ottla.zk.client.request import Decoder, OnAnswer, Request
from ottla.zk.client.watches import ClientWatches, call_watchers

logger = logging.getLogger(__name__)

FIRST_RETRY_S = 0.05
MAX_RETRY_S = 1.0
MIN_CONNECT_S = 1.0

_NO_PASSWORD = bytes(16)


class ClientSession:
    """One session at a time, and the connection that it lives on now.

    Owns the watches, because they are set again on a new connection and end with the session, and
    the requests that wait for a connection."""

    def __init__(
        self,
        runtime: Runtime,
        hosts: Sequence[tuple[str, int]],
        chroot: Chroot,
        timeout_ms: int,
        credentials: Sequence[tuple[str, bytes]],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.id = 0
        # As negotiated with the server.
        self.timeout_ms = timeout_ms
        self.state = SessionState.SUSPENDED
        self.watches = ClientWatches()
        # Set only while requests may be sent on it.
        self.connection: Connection | None = None
        self.backlog = Backlog()
        # Why the last attempt at a server did not work out, for people; "" before the first.
        self.last_failure = ""
        self._runtime = runtime
        self._hosts = list(hosts)
        self._chroot = chroot
        self._asked_timeout_ms = timeout_ms
        self._credentials = list(credentials)
        self._ssl_context = ssl_context
        self._listeners: list[SessionListener] = []
        self._password = _NO_PASSWORD
        self._seen_zxid = 0
        self._multi_reads = MultiReads()
        # Remembered: asking for the loop is a system call in Python 3.11 (getpid).
        self._loop = asyncio.get_running_loop()
        self._first_session: asyncio.Future[None] = self._loop.create_future()
        self._runner: asyncio.Task[None] | None = None
        self._closed = False
        self._auth_failed = False

    async def open(self, timeout_ms: int) -> None:
        """Returns with the first session; TimeoutError where no server answers in time."""
        self._runner = self._loop.create_task(self._run())
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._first_session
        except BaseException:
            await self.close()
            raise

    def add_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        connection, self.connection = self.connection, None
        if connection is not None:
            goodbye = connection.request(jute.OP_CLOSE_SESSION, b"")
            try:
                await asyncio.wait_for(goodbye, self.timeout_ms / 1000)
            except (StoreError, TimeoutError):
                # The server ends the session by itself when its time-out passes.
                logger.debug("no answer to the end of session %#x", self.id)
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        if connection is not None:
            connection.abort()
        self.backlog.stop_waiting()
        self.backlog.fail(SessionExpiredError)
        self.watches.clear()
        self._tell(SessionState.CLOSED)

    # --- requests ---

    def send(
        self,
        path: str,
        operation: int,
        body: bytes,
        decode: Decoder | None = None,
        on_answer: OnAnswer | None = None,
    ) -> asyncio.Future[Any]:
        """Sends now, or as soon as there is a connection with room, in the order of the calls."""
        if len(body) + 8 > jute.MAX_PACKET_BYTES:
            # The server would drop the connection, and with it everybody's requests.
            raise BadArgumentsError(f"{path}: {len(body)} bytes are too many for one request")
        future = self._loop.create_future()
        request = Request(future, path, operation, body, decode, on_answer)
        connection = self.connection
        if connection is not None and not self.backlog and connection.has_room:
            connection.submit(request)
        elif self._auth_failed:
            future.set_exception(AuthFailedError(path))
        elif self._closed:
            future.set_exception(SessionExpiredError(path))
        else:
            self.backlog.add(request)
            if connection is None:
                self.backlog.wait_at_most(self.timeout_ms)
        return future

    async def add_auth(self, scheme: str, credential: bytes) -> None:
        self._credentials.append((scheme, credential))
        if self.connection is not None:
            await _authenticate(self.connection, scheme, credential)

    # --- ConnectionOwner ---

    def event_received(self, kind: EventType, path: str) -> None:
        watchers = self.watches.take(kind, path)
        if watchers:
            call_watchers(watchers, WatchEvent(kind, self._chroot.stripped(path)))

    def connection_closed(self, connection: Connection) -> None:
        self._seen_zxid = max(self._seen_zxid, connection.last_zxid)
        if self.connection is connection:
            self.connection = None
            if not self._closed:
                self._tell(SessionState.SUSPENDED)

    def answers_taken(self) -> None:
        connection = self.connection
        if connection is not None and self.backlog and connection.wants_more:
            self.backlog.send(connection)

    # --- keeping the session ---

    async def _run(self) -> None:
        """Connects, watches over the connection, and again, until closed."""
        retry_s = FIRST_RETRY_S
        while not self._is_over():
            servers = list(self._hosts)
            self._runtime.random.shuffle(servers)
            for host, port in servers:
                connection = await self._establish(host, port, len(servers))
                if connection is not None:
                    retry_s = FIRST_RETRY_S
                    await self._watch_over(connection)
                    break
                if self._is_over():
                    return
            else:
                await asyncio.sleep(retry_s * self._runtime.random.uniform(0.5, 1.0))
                retry_s = min(retry_s * 2, MAX_RETRY_S)

    def _is_over(self) -> bool:
        return self._closed or self._auth_failed

    async def _establish(self, host: str, port: int, servers: int) -> Connection | None:
        """One attempt at one server; None where it did not work out."""
        # A third, so that a server that takes the connection and then stays silent (one that
        # starts, one whose disk hangs) leaves time for the others, or for another try.
        patience_s = max(MIN_CONNECT_S, self._asked_timeout_ms / 3000 / servers)
        connection: Connection | None = None
        try:
            async with asyncio.timeout(patience_s):
                _, protocol = await self._runtime.network.connect(
                    lambda: Connection(self, self._runtime.clock),
                    host,
                    port,
                    ssl_context=self._ssl_context,
                )
                connection = cast("Connection", protocol)
                return await self._handshake(connection, (host, port))
        except AuthFailedError:
            logger.error("%s:%d refused the credentials", host, port)
            self._auth_failed = True
            self.backlog.fail(AuthFailedError)
            if not self._first_session.done():
                self._first_session.set_exception(AuthFailedError())
        except (OSError, StoreError, TimeoutError, UnicodeError) as error:
            logger.debug("no session at %s:%d: %r", host, port, error)
            self.last_failure = failure_in_words(error)
        if connection is not None:
            connection.abort()
        return None

    async def _handshake(
        self, connection: Connection, server: tuple[str, int]
    ) -> Connection | None:
        connection.greet(
            jute.CONNECT_REQUEST.pack(0, self._seen_zxid, self._asked_timeout_ms, self.id)
            + jute.write_buffer(self._password)
            + b"\0"
        )
        answer = await connection.connected
        if answer.timeout_ms <= 0:
            connection.abort()
            self._expired()
            return None
        self.id = answer.session_id
        self._password = answer.password
        self.timeout_ms = answer.timeout_ms
        for scheme, credential in self._credentials:
            await _authenticate(connection, scheme, credential)
        if await self._multi_reads.are_served(connection, server):
            connection.multi_reads = self._multi_reads
        for packet in self.watches.set_watches_packets(self._seen_zxid):
            await connection.request(jute.OP_SET_WATCHES, packet, jute.XID_SET_WATCHES)
        if not connection.is_open:
            return None
        self.connection = connection
        self.backlog.stop_waiting()
        if not self._first_session.done():
            self._first_session.set_result(None)
        self._tell(SessionState.CONNECTED)
        self.backlog.send(connection)
        return connection

    async def _watch_over(self, connection: Connection) -> None:
        """Pings a silent server and gives up one that stays silent (ClientCnxn.SendThread)."""
        clock = self._runtime.clock
        while connection.is_open:
            await asyncio.wait((connection.closed,), timeout=self.timeout_ms / 6000)
            now_ms = clock.monotonic_ms()
            if now_ms - connection.received_ms > self.timeout_ms * 2 / 3:
                logger.warning(
                    "the store did not answer for %d ms", now_ms - connection.received_ms
                )
                connection.abort()
            elif now_ms - connection.sent_ms >= self.timeout_ms / 4:
                connection.ping()

    def _expired(self) -> None:
        logger.warning("session %#x expired", self.id)
        self.id = 0
        self._password = _NO_PASSWORD
        self._seen_zxid = 0
        self.watches.clear()
        self.backlog.fail(SessionExpiredError)
        self._tell(SessionState.EXPIRED)

    def _tell(self, state: SessionState) -> None:
        self.state = state
        for listener in list(self._listeners):
            _call_listener(listener, state)


def failure_in_words(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "the connection was closed" if isinstance(error, StoreError) else str(error)


def _call_listener(listener: Callable[[SessionState], None], state: SessionState) -> None:
    try:
        listener(state)
    except Exception:
        logger.exception("a session listener failed")


async def _authenticate(connection: Connection, scheme: str, credential: bytes) -> None:
    body = jute.INT.pack(0) + jute.write_string(scheme) + jute.write_buffer(credential)
    await connection.request(jute.OP_AUTH, body, jute.XID_AUTH)
