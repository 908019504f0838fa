"""Serves a store on the ZooKeeper wire protocol: zkCli, kazoo and Apache Kafka work on it.

A single node. Requests of one connection are answered in order; the answers of one turn of the
event loop leave in one write. Whatever is not a well-formed packet closes its connection and
nothing else. A request is served when its client has taken the answers before it, and who has
many waits for others in between (ADR 38).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from ottla.bounds.repeated_lines import LineLimits, RepeatedLines
from ottla.errors import InvariantViolated
from ottla.metadata.store import (
    AuthFailedError,
    MarshallingError,
    StoreError,
    UnimplementedError,
)
from ottla.runtime import HeldLock, Runtime, Server
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server import words
from ottla.zk.server.acl import Identity, with_proof
from ottla.zk.server.admission import MAX_CLIENT_CONNECTIONS, MAX_CONNECTIONS, Admission
from ottla.zk.server.engine import Engine
from ottla.zk.server.holdings import MAX_HELD_BYTES, Holdings
from ottla.zk.server.journal import make_folder
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.packets import LARGE_BYTES, PacketStream
from ottla.zk.server.pipeline import StoreFailed
from ottla.zk.server.requests import HANDLERS, Steps
from ottla.zk.server.secure_port import SecurePort
from ottla.zk.server.sessions import PASSWORD_BYTES, Session, SessionLimits

logger = logging.getLogger(__name__)

# One line of each kind about an address.
_LINE_LIMITS = LineLimits(per_key=1)

# A connection without a session is given up after this (zookeeper.nio.sessionlessCnxnTimeout).
SESSIONLESS_MS = 10_000
# A request for a session is not longer.
MAX_CONNECT_BYTES = 1 << 12
# Of a request that takes long: steps between two looks at the clock.
STEPS_PER_LOOK = 50
HOUSEKEEPING_S = 1.0

_CONNECT_TAIL = 4  # the password's length
_MIN_CONNECT_BYTES = jute.CONNECT_REQUEST.size + _CONNECT_TAIL


class ZooKeeperServer:
    """The socket and its connections, and the engine with its data folder unless it is given one.

    The folder is locked first, then the port is bound, and only then files are read and written:
    who comes too late changes nothing.
    """

    def __init__(
        self,
        runtime: Runtime,
        data_dir: Path | None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: SessionLimits | None = None,
        fsync: bool = True,
        options: StoreOptions | None = None,
        engine: Engine | None = None,
        secure: SecurePort | None = None,
        max_packet_bytes: int = jute.MAX_PACKET_BYTES,
        max_connections: int = MAX_CONNECTIONS,
        max_client_connections: int = MAX_CLIENT_CONNECTIONS,
        max_held_bytes: int = MAX_HELD_BYTES,
        on_failure: Callable[[StoreFailed], None] | None = None,
    ) -> None:
        self.engine = engine or Engine(
            runtime, data_dir, limits=limits, fsync=fsync, options=options
        )
        self.max_packet_bytes = max_packet_bytes
        self.connections: dict[_Connection, None] = {}
        self.holdings = Holdings(max_held_bytes)
        self.received = 0
        self.sent = 0
        self.is_open = False
        self._owns_engine = engine is None
        self._runtime = runtime
        self._data_dir = data_dir
        self._host = host
        self._asked_port = port
        self._secure = secure
        self._admission = Admission(max_connections, max_client_connections)
        # About what any client can cause.
        self._lines = RepeatedLines(logger, runtime.clock, _LINE_LIMITS)
        self._on_failure = on_failure
        self._lock: HeldLock | None = None
        self._server: Server | None = None
        self._secure_server: Server | None = None
        self._housekeeper: asyncio.Task[None] | None = None
        self._started_ms = 0.0

    @property
    def port(self) -> int:
        if self._server is None:
            raise InvariantViolated("the server was not started")
        return self._server.port

    @property
    def secure_port(self) -> int:
        if self._secure_server is None:
            raise InvariantViolated("the server has no secure port")
        return self._secure_server.port

    async def start(self) -> None:
        """Raises OSError (port in use, unwritable folder), DirInUse or DamagedFile."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        if self._owns_engine and self._data_dir is not None:
            make_folder(self._runtime.disk, self._data_dir)
            self._lock = self._runtime.disk.lock(self._data_dir)
        self._started_ms = self._runtime.clock.monotonic_ms()
        self._server = await self._runtime.network.listen(
            lambda: _Connection(self),
            self._host,
            self._asked_port,
        )
        if self._secure is not None:
            wrap = self._secure.wrap
            self._secure_server = await self._runtime.network.listen(
                lambda: wrap(_Connection(self)), self._host, self._secure.port
            )
        if self._owns_engine:
            self.engine.pipeline.on_failure = self._failed
            await self.engine.start()
        self.is_open = True
        for connection in list(self.connections):
            connection.serve_what_came()
        self._housekeeper = asyncio.get_running_loop().create_task(self._close_sessionless())

    async def stop(self) -> None:
        """Connections end, sessions stay (in the journal) for when the server is back."""
        if self._housekeeper is not None:
            self._housekeeper.cancel()
            self._housekeeper = None
        for server in (self._server, self._secure_server):
            if server is not None:
                await server.close()
        if self._owns_engine:
            await self.engine.stop()
        for connection in list(self.connections):
            connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def admit(self, connection: _Connection) -> bool:
        refusal = self._admission.admit(connection.host)
        if refusal is not None:
            self._lines.log(
                logging.WARNING, connection.host, "refused", "a connection was refused: %s", refusal
            )
            return False
        self.connections[connection] = None
        return True

    def release(self, connection: _Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._admission.release(connection.host)
        self.holdings.note(connection, 0)

    def tell_closing(self, connection: _Connection, reason: object) -> None:
        self._lines.log(
            logging.WARNING, connection.host, "closing", "closing %s: %s", connection.name, reason
        )

    def status(self) -> words.Status:
        engine = self.engine
        return words.Status(
            port=self.port,
            data_dir=str(self._data_dir or ""),
            tick_ms=engine.limits.tick_ms,
            min_timeout_ms=engine.limits.min_timeout_ms,
            max_timeout_ms=engine.limits.max_timeout_ms,
            connections=[connection.name for connection in self.connections],
            sessions=len(engine.sessions),
            received=self.received,
            sent=self.sent,
            outstanding=engine.pipeline.outstanding,
            zxid=engine.tree.last_zxid,
            nodes=len(engine.tree.nodes),
            watches=len(engine.watches),
            watched_paths=engine.watches.watched_paths,
            ephemerals=sum(map(len, engine.tree.ephemerals.values())),
            uptime_ms=int(self._runtime.clock.monotonic_ms() - self._started_ms),
        )

    def _failed(self, failure: StoreFailed) -> None:
        for connection in list(self.connections):
            connection.close()
        if self._on_failure is not None:
            self._on_failure(failure)

    async def _close_sessionless(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            oldest_ms = self._runtime.clock.monotonic_ms() - SESSIONLESS_MS
            for connection in list(self.connections):
                if connection.is_idle_since(oldest_ms):
                    connection.abort()


class _Connection(PacketStream):
    """One client. Before the session is there only a connect packet or a word is understood."""

    def __init__(self, server: ZooKeeperServer) -> None:
        super().__init__(server, MAX_CONNECT_BYTES)
        self.name = ""
        self._server = server
        # When it was opened, or was to be closed: it has to get on within some time of either.
        self._since_ms = 0.0
        self._connected = False
        # A request under way, in steps: its xid and what is left of it.
        self._steps: tuple[int, Steps] | None = None

    # --- its life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._since_ms = self._clock.monotonic_ms()
        address = transport.get_extra_info("peername") or ("", 0)
        self.host = str(address[0])
        self.name = f"{self.host}:{address[1]}"
        self.identities = (Identity("ip", self.host),)
        if not self._server.admit(self):
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.let_go()
        self._server.release(self)
        if self._connected and self.session.owner is self:
            self.session.owner = None

    def session_ended(self) -> None:
        self.close()

    def let_go(self) -> None:
        super().let_go()
        self._since_ms = self._clock.monotonic_ms()
        self._end_steps()

    def tell_closing(self, reason: object) -> None:
        self._server.tell_closing(self, reason)

    def is_idle_since(self, moment_ms: float) -> bool:
        """Without a session, or on its way out."""
        return (self._closing or not self._connected) and self._since_ms < moment_ms

    def _end_with(self, packet: bytes) -> None:
        """Says one more thing and then closes."""
        self._closing = True
        self._since_ms = self._clock.monotonic_ms()
        self.push(packet)
        self.engine.pipeline.push(self, None)

    # --- packets ---

    def touch(self, now_ms: float) -> None:
        if self._connected:
            self.session.touch(now_ms)

    def refuse_length(self, head: bytes) -> bool:
        """A packet would be too long: before there is a session it may be a word."""
        if self._connected or not words.is_word(head):
            return False
        self._end_with(words.answer(head, self._server.status, self.engine.options.words))
        return True

    def serve_packet(self, data: bytes, position: int, end: int) -> None:
        if not self._connected:
            self._connect(data, position, end)
            return
        if end - position < 8:
            raise JuteError("packet without a header")
        xid, operation = jute.REQUEST_HEADER.unpack_from(data, position)
        self._server.received += 1
        handler = HANDLERS.get(operation)
        try:
            if handler is not None:
                body = handler(self, data, position + 8, end)
                if type(body) is not bytes:
                    self._begin_steps(xid, cast("Steps", body))
                elif len(body) < LARGE_BYTES:
                    # As `_answer`; written out, because most requests come this way.
                    engine = self.engine
                    zxid = engine.tree.last_zxid
                    packet = jute.FRAMED_REPLY.pack(16 + len(body), xid, zxid, 0) + body
                    self._unsent += len(packet)
                    engine.pipeline.push(self, packet)
                else:
                    self._answer(xid, body)
            else:
                self._serve_session(xid, operation, data, position + 8, end)
        except StoreError as error:
            self._fail(xid, error.code)
        except JuteError:
            self._fail(xid, MarshallingError.code)

    def _begin_steps(self, xid: int, steps: Steps) -> None:
        self._steps = xid, steps
        self._busy = True
        self._turns.wait(self)

    def _end_steps(self) -> None:
        self._steps = None
        self._busy = False

    def go_on(self, until_ms: float) -> None:
        if not self._closing and self._step(until_ms):
            super().go_on(until_ms)

    def _step(self, until_ms: float) -> bool:
        """Goes on with a request that takes long; whether it is answered."""
        if self._steps is None:
            return True
        xid, steps = self._steps
        try:
            while not self.takes_no_more:
                for _ in range(STEPS_PER_LOOK):
                    next(steps)
                if self._clock.monotonic_ms() >= until_ms:
                    self.note()
                    if not self._closing:
                        self._turns.wait(self)
                    return False
            # Until its client has read the events of the steps so far.
            return False
        except StopIteration as end:
            self._end_steps()
            self._answer(xid, end.value)
        except StoreError as error:
            self._end_steps()
            self._fail(xid, error.code)
        except JuteError:
            self._end_steps()
            self._fail(xid, MarshallingError.code)
        return True

    def _answer(self, xid: int, body: bytes) -> None:
        head = jute.FRAMED_REPLY.pack(16 + len(body), xid, self.engine.tree.last_zxid, 0)
        if len(body) < LARGE_BYTES:
            self.push(head + body)
        else:
            self.push(head)
            self.push(body)

    def _fail(self, xid: int, code: int) -> None:
        self.push(jute.reply(xid, self.engine.tree.last_zxid, code))

    def _serve_session(
        self, xid: int, operation: int, data: bytes, position: int, end: int
    ) -> None:
        """The operations that concern the connection rather than the tree."""
        if operation == jute.OP_PING:
            self._answer(xid, b"")
        elif operation == jute.OP_CLOSE_SESSION:
            self.session.owner = None
            self._closing = True
            self._since_ms = self._clock.monotonic_ms()
            self.engine.close_session(self.session, partial(self._say_goodbye, xid))
        elif operation == jute.OP_AUTH:
            self._authenticate(xid, data, position, end)
        elif operation == jute.OP_SASL:
            self._refuse_proof(xid)
        else:
            raise UnimplementedError

    def _say_goodbye(self, xid: int) -> None:
        self._end_with(jute.reply(xid, self.engine.tree.last_zxid))

    def _refuse_proof(self, xid: int) -> None:
        """ZooKeeper answers and then closes the connection."""
        self._end_with(jute.reply(xid, self.engine.tree.last_zxid, AuthFailedError.code))

    def _authenticate(self, xid: int, data: bytes, position: int, end: int) -> None:
        _, position = jute.read_int(data, position, end)
        scheme, position = jute.read_string(data, position, end)
        credential, position = jute.read_buffer(data, position, end)
        try:
            if scheme == "digest":
                self.identities = with_proof(
                    self.identities, credential, self.engine.options.super_digest
                )
            elif scheme not in ("ip", "world"):
                raise AuthFailedError(scheme)
        except AuthFailedError:
            self._refuse_proof(xid)
        else:
            self.push(jute.reply(xid, 0))

    def _connect(self, data: bytes, position: int, end: int) -> None:
        if end - position < _MIN_CONNECT_BYTES:
            raise JuteError("connect packet is too short")
        _, seen_zxid, timeout_ms, session_id = jute.CONNECT_REQUEST.unpack_from(data, position)
        position += jute.CONNECT_REQUEST.size
        password, position = jute.read_buffer(data, position, end)
        # Clients before 3.4 do not send the read-only flag, and do not expect it back.
        has_flag = position < end
        engine = self.engine
        if seen_zxid > engine.tree.last_zxid:
            raise JuteError(f"client has seen {seen_zxid:#x}, later than this server")
        session = (
            engine.open_session(timeout_ms)
            if session_id == 0
            else engine.sessions.authenticate(session_id, password)
        )
        if session is None and session_id == 0:
            raise JuteError("there are too many sessions")
        if session is None:
            refusal = jute.CONNECT_RESPONSE.pack(0, 0, 0) + jute.write_buffer(bytes(PASSWORD_BYTES))
            self._end_with(jute.frame(refusal + (b"\0" if has_flag else b"")))
            return
        self._attach(session, timeout_ms)
        answer = jute.CONNECT_RESPONSE.pack(0, session.timeout_ms, session.id)
        answer += jute.write_buffer(engine.sessions.password(session.id))
        self.push(jute.frame(answer + (b"\0" if has_flag else b"")))

    def _attach(self, session: Session, timeout_ms: int) -> None:
        """The session moves here; the connection that had it before is closed."""
        previous, session.owner = session.owner, self
        if previous is not None:
            previous.session_ended()
        session.timeout_ms = self.engine.limits.negotiate(timeout_ms)
        session.touch(self._clock.monotonic_ms())
        self.session = session
        self._connected = True
        self.packet_limit = self._server.max_packet_bytes
