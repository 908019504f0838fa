"""Serves a store on the ZooKeeper wire protocol: zkCli, kazoo and Apache Kafka work on it.

A single node. Requests of one connection are answered in order; the answers of one turn of the
event loop leave in one write. Whatever is not a well-formed packet closes its connection and
nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

from ottla.errors import InvariantViolated
from ottla.metadata.store import AuthFailedError, MarshallingError, StoreError, UnimplementedError
from ottla.runtime import HeldLock, Runtime, Server
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server import words
from ottla.zk.server.acl import Identity, proved_by
from ottla.zk.server.engine import Engine
from ottla.zk.server.journal import make_folder
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.peer import Peer
from ottla.zk.server.pipeline import StoreFailed
from ottla.zk.server.requests import HANDLERS
from ottla.zk.server.secure_port import SecurePort
from ottla.zk.server.sessions import PASSWORD_BYTES, Session, SessionLimits

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 10_000
# A connection without a session is given up after this (zookeeper.nio.sessionlessCnxnTimeout).
SESSIONLESS_MS = 10_000
# A client that does not read its answers is cut off beyond this.
MAX_UNSENT_BYTES = 64 << 20
# What a client may send before the store has read its files.
MAX_UNSERVED_BYTES = 1 << 16
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
        on_failure: Callable[[StoreFailed], None] | None = None,
    ) -> None:
        self.engine = engine or Engine(
            runtime, data_dir, limits=limits, fsync=fsync, options=options
        )
        self.max_packet_bytes = max_packet_bytes
        self.connections: dict[_Connection, None] = {}
        self.received = 0
        self.sent = 0
        self.is_open = False
        self._owns_engine = engine is None
        self._runtime = runtime
        self._data_dir = data_dir
        self._host = host
        self._asked_port = port
        self._secure = secure
        self._max_connections = max_connections
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
        if len(self.connections) >= self._max_connections:
            return False
        self.connections[connection] = None
        return True

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
            watched_paths=engine.watches.watched_paths(),
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
                if connection.is_sessionless_since(oldest_ms):
                    connection.close()


class _Connection(Peer, asyncio.Protocol):
    """One client. Before the session is there only a connect packet or a word is understood."""

    def __init__(self, server: ZooKeeperServer) -> None:
        super().__init__(server.engine, "")
        self.name = ""
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._opened_ms = 0.0
        self._connected = False
        self._closing = False
        # Two reasons not to read: the engine gathers, the client does not take its answers.
        self._paused = False
        self._choked = False
        self._clock = server.engine.runtime.clock

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._opened_ms = self._clock.monotonic_ms()
        address = transport.get_extra_info("peername") or ("", 0)
        self.host = str(address[0])
        self.name = f"{self.host}:{address[1]}"
        self.identities = (Identity("ip", self.host),)
        if not self._server.admit(self):
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._rest:
            data = self._rest + data
        if not self._server.is_open:
            self._wait(data)
            return
        try:
            position = self._take_packets(data)
        except JuteError as error:
            logger.info("closing %s: %s", self.name, error)
            self.close()
            return
        self._rest = data[position:]

    def _wait(self, data: bytes) -> None:
        """The tree is not there yet: nobody sends more than a request for a session until then."""
        self._rest = data
        if len(data) > MAX_UNSERVED_BYTES:
            self.close()

    def serve_what_came(self) -> None:
        if self._rest:
            self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._server.connections.pop(self, None)
        self.engine.watches.remove_watcher(self)
        if self._connected and self.session.owner is self:
            self.session.owner = None
        self._rest = b""

    def pause_writing(self) -> None:
        self._choked = True
        self._read_or_not()

    def resume_writing(self) -> None:
        self._choked = False
        self._read_or_not()

    # --- Outlet ---

    def deliver(self, items: list[bytes | None]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        last = None in items
        if last:
            # A watch may have fired between the goodbye and now: nobody hears of it any more.
            del items[items.index(None) :]
        self._server.sent += len(items)
        transport.write(
            b"".join(cast("list[bytes]", items)) if len(items) != 1 else items[0] or b""
        )
        if last:
            transport.close()
        elif transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            logger.warning("closing %s: it does not read its answers", self.name)
            transport.abort()

    def pause(self) -> None:
        self._paused = True
        self._read_or_not()

    def resume(self) -> None:
        self._paused = False
        self._read_or_not()

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._paused or self._choked:
            transport.pause_reading()
        elif not self._closing:
            transport.resume_reading()

    def session_ended(self) -> None:
        self.close()

    def close(self) -> None:
        self._closing = True
        self.engine.watches.remove_watcher(self)
        if self._transport is not None:
            self._transport.close()

    def is_sessionless_since(self, moment_ms: float) -> bool:
        return not self._connected and self._opened_ms < moment_ms

    # --- packets ---

    def _take_packets(self, data: bytes) -> int:
        """Serves every whole packet; returns where the rest begins."""
        position, size = 0, len(data)
        limit = self._server.max_packet_bytes
        if self._connected:
            self.session.touch(self._clock.monotonic_ms())
        while size - position >= 4 and not self._closing:
            length = jute.INT.unpack_from(data, position)[0]
            if length < 0 or length > limit:
                if not self._connected and self._answer_word(data[position : position + 4]):
                    return size
                raise JuteError(f"packet of {length} bytes")
            end = position + 4 + length
            if end > size:
                break
            if self._connected:
                self._serve(data, position + 4, end)
            else:
                self._connect(data, position + 4, end)
            position = end
        return position

    def _serve(self, data: bytes, position: int, end: int) -> None:
        if end - position < 8:
            raise JuteError("packet without a header")
        xid, operation = jute.REQUEST_HEADER.unpack_from(data, position)
        self._server.received += 1
        engine = self.engine
        handler = HANDLERS.get(operation)
        try:
            if handler is not None:
                body = handler(self, data, position + 8, end)
                packet = (
                    jute.FRAMED_REPLY.pack(16 + len(body), xid, engine.tree.last_zxid, 0) + body
                )
            else:
                packet = self._serve_session(xid, operation, data, position + 8, end)
        except StoreError as error:
            packet = jute.reply(xid, engine.tree.last_zxid, error.code)
        except JuteError:
            packet = jute.reply(xid, engine.tree.last_zxid, MarshallingError.code)
        engine.pipeline.push(self, packet)
        if self._closing:
            engine.pipeline.push(self, None)

    def _serve_session(
        self, xid: int, operation: int, data: bytes, position: int, end: int
    ) -> bytes:
        """The operations that concern the connection rather than the tree."""
        engine = self.engine
        if operation == jute.OP_PING:
            return jute.reply(xid, engine.tree.last_zxid)
        if operation == jute.OP_CLOSE_SESSION:
            self.session.owner = None
            engine.close_session(self.session)
            self._closing = True
            return jute.reply(xid, engine.tree.last_zxid)
        if operation == jute.OP_AUTH:
            return self._authenticate(xid, data, position, end)
        if operation == jute.OP_SASL:
            self._closing = True
            raise AuthFailedError
        raise UnimplementedError

    def _authenticate(self, xid: int, data: bytes, position: int, end: int) -> bytes:
        _, position = jute.read_int(data, position, end)
        scheme, position = jute.read_string(data, position, end)
        credential, position = jute.read_buffer(data, position, end)
        if scheme == "digest" and credential and b":" in credential:
            for identity in proved_by(credential, self.engine.options.super_digest):
                if identity not in self.identities:
                    self.identities += (identity,)
        elif scheme not in ("ip", "world"):
            # ZooKeeper answers and then closes the connection.
            self._closing = True
            raise AuthFailedError(scheme)
        return jute.reply(xid, 0)

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
        if session is None:
            refusal = jute.CONNECT_RESPONSE.pack(0, 0, 0) + jute.write_buffer(bytes(PASSWORD_BYTES))
            engine.pipeline.push(self, jute.frame(refusal + (b"\0" if has_flag else b"")))
            engine.pipeline.push(self, None)
            self._closing = True
            return
        self._attach(session, timeout_ms)
        answer = jute.CONNECT_RESPONSE.pack(0, session.timeout_ms, session.id)
        answer += jute.write_buffer(engine.sessions.password(session.id))
        engine.pipeline.push(self, jute.frame(answer + (b"\0" if has_flag else b"")))

    def _attach(self, session: Session, timeout_ms: int) -> None:
        """The session moves here; the connection that had it before is closed."""
        previous, session.owner = session.owner, self
        if previous is not None:
            previous.session_ended()
        session.timeout_ms = self.engine.limits.negotiate(timeout_ms)
        session.touch(self._clock.monotonic_ms())
        self.session = session
        self._connected = True

    def _answer_word(self, word: bytes) -> bool:
        text = words.answer(word, self._server.status()) if words.is_word(word) else None
        if text is None:
            return False
        self._closing = True
        self.engine.pipeline.push(self, text)
        self.engine.pipeline.push(self, None)
        return True
