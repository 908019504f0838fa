"""The metadata store on any ZooKeeper-protocol server: our own asyncio client.

Several hosts, one session kept over lost connections and server restarts, watches set again,
digest auth, TLS, chroot. A session that the server expired is replaced by a new one by itself;
its watches and ephemeral nodes are gone, as the listeners are told. Requests are pipelined.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

from ottla.metadata.store import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    AuthFailedError,
    BadArgumentsError,
    ConnectionLossError,
    Create,
    CreateMode,
    EventType,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SessionExpiredError,
    SessionListener,
    SessionState,
    Stat,
    StoreError,
    Watcher,
    WatchEvent,
)
from ottla.runtime import Runtime
from ottla.zk import jute
from ottla.zk.client import hosts as connect_strings
from ottla.zk.client import replies
from ottla.zk.client.backlog import Backlog
from ottla.zk.client.connection import Connection, Decoder, OnAnswer, Request
from ottla.zk.client.multi_read import MultiReads
from ottla.zk.client.watches import ClientWatches, call_watchers
from ottla.zk.paths import validate

log = logging.getLogger(__name__)

DEFAULT_SESSION_TIMEOUT_MS = 18_000
FIRST_RETRY_S = 0.05
MAX_RETRY_S = 1.0
MIN_CONNECT_S = 1.0

_NO_PASSWORD = bytes(16)


class ZooKeeperClient:
    """A `MetadataStore`. Made by `connect`."""

    def __init__(
        self,
        runtime: Runtime,
        connect_string: str,
        session_timeout_ms: int,
        credentials: Sequence[tuple[str, bytes]],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._hosts, self._chroot = connect_strings.parse(connect_string)
        self._runtime = runtime
        self._asked_timeout_ms = session_timeout_ms
        self._timeout_ms = session_timeout_ms
        self._credentials = list(credentials)
        self._ssl_context = ssl_context
        self._watches = ClientWatches()
        self._listeners: list[SessionListener] = []
        self._session_id = 0
        self._password = _NO_PASSWORD
        self._seen_zxid = 0
        # Set only while requests may be sent on it.
        self._connection: Connection | None = None
        self._backlog = Backlog()
        self._multi_reads = MultiReads()
        self._first_session: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._runner: asyncio.Task[None] | None = None
        self._closed = False
        self._auth_failed = False
        self._state = SessionState.SUSPENDED

    @classmethod
    async def connect(
        cls,
        runtime: Runtime,
        connect_string: str,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        credentials: Sequence[tuple[str, bytes]] = (),
        ssl_context: ssl.SSLContext | None = None,
        connect_timeout_ms: int | None = None,
    ) -> ZooKeeperClient:
        """A client with an open session; ConnectionLossError where no server answers in time."""
        client = cls(runtime, connect_string, session_timeout_ms, credentials, ssl_context)
        client._runner = asyncio.get_running_loop().create_task(client._run())
        try:
            async with asyncio.timeout((connect_timeout_ms or session_timeout_ms) / 1000):
                await client._first_session
        except TimeoutError:
            await client.close()
            raise ConnectionLossError(connect_string) from None
        except BaseException:
            await client.close()
            raise
        return client

    # --- the session ---

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """As negotiated with the server."""
        return self._timeout_ms

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def chroot(self) -> str:
        return self._chroot

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            goodbye = connection.request(jute.OP_CLOSE_SESSION, b"")
            try:
                await asyncio.wait_for(goodbye, self._timeout_ms / 1000)
            except (StoreError, TimeoutError):
                # The server ends the session by itself when its time-out passes.
                log.debug("no answer to the end of session %#x", self._session_id)
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        if connection is not None:
            connection.abort()
        self._backlog.stop_waiting()
        self._backlog.fail(SessionExpiredError)
        self._watches.clear()
        self._tell(SessionState.CLOSED)

    # --- reads: futures, so that reading many nodes at once needs no task for each ---

    def get(
        self, path: str, watch: Watcher | None = None
    ) -> asyncio.Future[tuple[bytes | None, Stat]]:
        return self._read(path, jute.OP_GET_DATA, replies.decode_get, self._watches.data, watch)

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        full = self._full(path)
        body = jute.write_string(full) + (b"\1" if watch else b"\0")
        on_answer = self._watch_exists(full, watch) if watch else None
        try:
            stat: Stat = await self._send(
                path, jute.OP_EXISTS, body, replies.decode_stat, on_answer
            )
        except NoNodeError:
            return None
        return stat

    def children(self, path: str, watch: Watcher | None = None) -> asyncio.Future[list[str]]:
        table = self._watches.children
        return self._read(path, jute.OP_GET_CHILDREN, replies.decode_children, table, watch)

    def _read(
        self,
        path: str,
        operation: int,
        decode: Decoder,
        table: dict[str, dict[Watcher, None]],
        watch: Watcher | None,
    ) -> asyncio.Future[Any]:
        try:
            full = self._full(path)
            body = jute.write_string(full) + (b"\1" if watch else b"\0")
            on_answer = self._watch_if_there(table, full, watch) if watch else None
            return self._send(path, operation, body, decode, on_answer)
        except StoreError as error:
            # A bad path shows where the answer would: when it is awaited.
            refused = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        body = jute.write_string(self._full(path))
        result: tuple[tuple[Acl, ...], Stat] = await self._send(
            path, jute.OP_GET_ACL, body, replies.decode_acl
        )
        return result

    async def sync(self, path: str = "/") -> None:
        """When it returns, reads show everything acknowledged anywhere before the call."""
        await self._send(path, jute.OP_SYNC, jute.write_string(self._full(path)))

    # --- writes ---

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> tuple[str, Stat]:
        is_sequential = mode in (
            CreateMode.PERSISTENT_SEQUENTIAL,
            CreateMode.EPHEMERAL_SEQUENTIAL,
        )
        full = self._full(path, is_sequential=is_sequential)
        made, stat = await self._send(
            path,
            replies.create_operation(mode),
            replies.encode_create(full, data, acl, mode),
            replies.decode_created,
        )
        return self._stripped(made), stat

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        body = b"".join(
            (jute.write_string(self._full(path)), jute.write_buffer(data), jute.INT.pack(version))
        )
        stat: Stat = await self._send(path, jute.OP_SET_DATA, body, replies.decode_stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        body = jute.write_string(self._full(path)) + jute.INT.pack(version)
        await self._send(path, jute.OP_DELETE, body)

    async def set_acl(self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION) -> Stat:
        body = b"".join(
            (jute.write_string(self._full(path)), jute.write_acls(acl), jute.INT.pack(version))
        )
        stat: Stat = await self._send(path, jute.OP_SET_ACL, body, replies.decode_stat)
        return stat

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        if not ops:
            return []
        encoded = []
        for op in ops:
            is_sequential = isinstance(op, Create) and op.mode in (
                CreateMode.PERSISTENT_SEQUENTIAL,
                CreateMode.EPHEMERAL_SEQUENTIAL,
            )
            encoded.append(replies.encode_op(op, self._full(op.path, is_sequential=is_sequential)))
        body = replies.encode_multi(encoded)
        results: list[OpResult] = await self._send("", jute.OP_MULTI, body, replies.decode_multi)
        return [self._finish_result(op, result) for op, result in zip(ops, results, strict=True)]

    async def add_auth(self, scheme: str, credential: bytes) -> None:
        """Proves an identity now and after every reconnection."""
        self._credentials.append((scheme, credential))
        if self._connection is not None:
            await _authenticate(self._connection, scheme, credential)

    async def create_chroot(self) -> None:
        """Makes the nodes of the chroot itself, as Kafka does at start."""
        path = ""
        for name in self._chroot.split("/")[1:]:
            path += "/" + name
            body = replies.encode_create(path, None, OPEN_ACL, CreateMode.PERSISTENT)
            try:
                await self._send(path, jute.OP_CREATE2, body)
            except NodeExistsError:
                continue

    # --- ConnectionOwner ---

    def event_received(self, kind: EventType, path: str) -> None:
        watchers = self._watches.take(kind, path)
        if watchers:
            call_watchers(watchers, WatchEvent(kind, self._stripped(path)))

    def connection_closed(self, connection: Connection) -> None:
        self._seen_zxid = max(self._seen_zxid, connection.last_zxid)
        if self._connection is connection:
            self._connection = None
            if not self._closed:
                self._tell(SessionState.SUSPENDED)

    def answers_taken(self) -> None:
        connection = self._connection
        if connection is not None and self._backlog and connection.wants_more:
            self._backlog.send(connection)

    # --- requests ---

    def _send(
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
        future = asyncio.get_running_loop().create_future()
        request = Request(future, path, operation, body, decode, on_answer)
        connection = self._connection
        if connection is not None and not self._backlog and connection.has_room:
            connection.submit(request)
        elif self._auth_failed:
            future.set_exception(AuthFailedError(path))
        elif self._closed:
            future.set_exception(SessionExpiredError(path))
        else:
            self._backlog.add(request)
            if connection is None:
                self._backlog.wait_at_most(self._timeout_ms)
        return future

    def _full(self, path: str, *, is_sequential: bool = False) -> str:
        """The server's path; a bad one is refused here, as ZooKeeper's own client does."""
        validate(path + "0" if is_sequential else path)
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _stripped(self, path: str) -> str:
        if not self._chroot:
            return path
        return path.removeprefix(self._chroot) or "/"

    def _finish_result(self, op: Op, result: OpResult) -> OpResult:
        if result.error is not None:
            result.error.path = op.path
            result.error.args = (op.path,)
            return result
        if result.path is not None:
            return OpResult(self._stripped(result.path), result.stat, None)
        return result

    def _watch_if_there(
        self, table: dict[str, dict[Watcher, None]], path: str, watcher: Watcher
    ) -> OnAnswer:
        def on_answer(code: int) -> None:
            if code == 0:
                self._watches.add(table, path, watcher)

        return on_answer

    def _watch_exists(self, path: str, watcher: Watcher) -> OnAnswer:
        def on_answer(code: int) -> None:
            if code == 0:
                self._watches.add(self._watches.data, path, watcher)
            elif code == NoNodeError.code:
                self._watches.add(self._watches.exists, path, watcher)

        return on_answer

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
            log.error("%s:%d refused the credentials", host, port)
            self._auth_failed = True
            self._backlog.fail(AuthFailedError)
            if not self._first_session.done():
                self._first_session.set_exception(AuthFailedError())
        except (OSError, StoreError, TimeoutError, UnicodeError) as error:
            log.debug("no session at %s:%d: %r", host, port, error)
        if connection is not None:
            connection.abort()
        return None

    async def _handshake(
        self, connection: Connection, server: tuple[str, int]
    ) -> Connection | None:
        connection.greet(
            jute.CONNECT_REQUEST.pack(0, self._seen_zxid, self._asked_timeout_ms, self._session_id)
            + jute.write_buffer(self._password)
            + b"\0"
        )
        answer = await connection.connected
        if answer.timeout_ms <= 0:
            connection.abort()
            self._expired()
            return None
        self._session_id = answer.session_id
        self._password = answer.password
        self._timeout_ms = answer.timeout_ms
        for scheme, credential in self._credentials:
            await _authenticate(connection, scheme, credential)
        if await self._multi_reads.are_served(connection, server):
            connection.multi_reads = self._multi_reads
        for packet in self._watches.set_watches_packets(self._seen_zxid):
            await connection.request(jute.OP_SET_WATCHES, packet, jute.XID_SET_WATCHES)
        if not connection.is_open:
            return None
        self._connection = connection
        self._backlog.stop_waiting()
        if not self._first_session.done():
            self._first_session.set_result(None)
        self._tell(SessionState.CONNECTED)
        self._backlog.send(connection)
        return connection

    async def _watch_over(self, connection: Connection) -> None:
        """Pings a silent server and gives up one that stays silent (ClientCnxn.SendThread)."""
        clock = self._runtime.clock
        while connection.is_open:
            await asyncio.wait((connection.closed,), timeout=self._timeout_ms / 6000)
            now_ms = clock.monotonic_ms()
            if now_ms - connection.received_ms > self._timeout_ms * 2 / 3:
                log.warning("the store did not answer for %d ms", now_ms - connection.received_ms)
                connection.abort()
            elif now_ms - connection.sent_ms >= self._timeout_ms / 4:
                connection.ping()

    def _expired(self) -> None:
        log.warning("session %#x expired", self._session_id)
        self._session_id = 0
        self._password = _NO_PASSWORD
        self._seen_zxid = 0
        self._watches.clear()
        self._backlog.fail(SessionExpiredError)
        self._tell(SessionState.EXPIRED)

    def _tell(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            _call_listener(listener, state)


def _call_listener(listener: Callable[[SessionState], None], state: SessionState) -> None:
    try:
        listener(state)
    except Exception:
        log.exception("a session listener failed")


async def _authenticate(connection: Connection, scheme: str, credential: bytes) -> None:
    body = jute.INT.pack(0) + jute.write_string(scheme) + jute.write_buffer(credential)
    await connection.request(jute.OP_AUTH, body, jute.XID_AUTH)
