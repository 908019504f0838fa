"""One TCP connection of the client: frames, requests in flight, pings. No session logic."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, cast

from ottla.metadata.store import STORE_ERRORS, ConnectionLossError, EventType, StoreError
from ottla.runtime import Clock
from ottla.zk import jute
from ottla.zk.client import multi_read
from ottla.zk.client.multi_read import MultiReads
from ottla.zk.client.request import Reads, Request
from ottla.zk.jute import JuteError

logger = logging.getLogger(__name__)

# Answers may be larger than requests (long lists of children), but not without end.
MAX_ANSWER_BYTES = 64 << 20
# Requests in flight on one connection, each read of a MultiRead counted. ZooKeeper's
# globalOutstandingLimit.
MAX_IN_FLIGHT = 1000
# What waits is sent once this few are left in flight: hundreds of requests in one write, where
# one for each answer would be a write and a wake-up of the server each.
REFILL_AT = MAX_IN_FLIGHT // 2
_MAX_XID = 0x7FFF_FFFF


class ConnectionOwner(Protocol):
    def event_received(self, kind: EventType, path: str) -> None: ...

    def connection_closed(self, connection: Connection) -> None: ...

    def answers_taken(self) -> None:
        """Some requests were answered, so there is room for others."""


class ConnectAnswer:
    __slots__ = ("password", "session_id", "timeout_ms")

    def __init__(self, timeout_ms: int, session_id: int, password: bytes) -> None:
        self.timeout_ms = timeout_ms
        self.session_id = session_id
        self.password = password


class Connection(asyncio.Protocol):
    """Requests of one turn of the loop leave in one write, and are answered in order; once it is
    closed, whoever had no answer hears of a lost connection."""

    def __init__(self, owner: ConnectionOwner, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        self.connected: asyncio.Future[ConnectAnswer] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.last_zxid = 0
        self.received_ms = self.sent_ms = clock.monotonic_ms()
        # Callers without an answer, sent or not.
        self.in_flight = 0
        # Set where the server knows MultiRead.
        self.multi_reads: MultiReads | None = None
        # Sent, in order.
        self._pending: deque[tuple[int, Request | Reads]] = deque()
        # Reads that leave together; everything that was asked before them is in `_outgoing`.
        self._held: Reads = []
        self._owner = owner
        self._clock = clock
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        # What came of packets that are not whole yet, and how much must come to go on.
        self._rest: list[bytes] = []
        self._missing = 0
        self._outgoing: list[bytes] = []
        self._flush_is_due = False
        self._next_xid = 1
        self._handshaken = False
        self._is_closed = False

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received_ms = self._clock.monotonic_ms()
        if self._rest:
            # A long answer comes in many pieces: joined once, not again with every piece.
            self._rest.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._rest)
            self._rest = []
        position, size, needed = 0, len(data), 4
        try:
            while size - position >= 4:
                length = jute.INT.unpack_from(data, position)[0]
                if length < 0 or length > MAX_ANSWER_BYTES:
                    self._refuse(length)
                end = position + 4 + length
                if end > size:
                    needed = 4 + length
                    break
                if self._handshaken:
                    self._answer(data, position + 4, end)
                else:
                    self._greet(data, position + 4, end)
                position = end
        except JuteError as error:
            logger.warning("dropping a connection to the store: %s", error)
            self.abort()
            return
        if position < size:
            self._rest = [data[position:]]
            self._missing = needed - (size - position)
        self._owner.answers_taken()

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self.connected.done():
            self.connected.set_exception(ConnectionLossError())
            # Nobody may be waiting any more, which is not worth a warning.
            self.connected.exception()
        while self._pending:
            request = self._pending.popleft()[1]
            _lose(request if isinstance(request, list) else (request,))
        _lose(self._held)
        self._held = []
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.connection_closed(self)

    # --- requests ---

    @property
    def is_open(self) -> bool:
        return self._handshaken and not self._is_closed

    @property
    def has_room(self) -> bool:
        return self.in_flight < MAX_IN_FLIGHT

    @property
    def wants_more(self) -> bool:
        return self.in_flight <= REFILL_AT

    def greet(self, body: bytes) -> None:
        self._write(jute.frame(body))

    def submit(self, request: Request) -> None:
        """Sends with the other requests of this turn of the loop; answers come in order."""
        if self.multi_reads is None or not multi_read.fits(request):
            self._submit_as(None, request)
        elif self._is_closed:
            request.future.set_exception(ConnectionLossError(request.path))
        else:
            self.in_flight += 1
            self._held.append(request)
            if len(self._held) >= self.multi_reads.limit:
                self._send_held()
            else:
                self._flush_soon()

    def request(self, operation: int, body: bytes, xid: int | None = None) -> asyncio.Future[Any]:
        """For what concerns the session itself; `xid` where the protocol fixes it."""
        request = Request(self._loop.create_future(), "", operation, body)
        self._submit_as(xid, request)
        return request.future

    def _submit_as(self, xid: int | None, request: Request) -> None:
        if self._is_closed:
            request.future.set_exception(ConnectionLossError(request.path))
            return
        if self._held:
            self._send_held()
        self.in_flight += 1
        self._send(xid, request, request.operation, request.body)

    def _send_held(self) -> None:
        reads, self._held = self._held, []
        if len(reads) == 1:
            self._send(None, reads[0], reads[0].operation, reads[0].body)
        else:
            self._send(None, reads, jute.OP_MULTI_READ, multi_read.encode(reads))

    def _send(self, xid: int | None, request: Request | Reads, operation: int, body: bytes) -> None:
        if xid is None:
            xid = self._next_xid
            self._next_xid = xid + 1 if xid < _MAX_XID else 1
        self._pending.append((xid, request))
        self._write(_REQUEST_FRAME.pack(8 + len(body), xid, operation) + body)

    def ping(self) -> None:
        self._write(_REQUEST_FRAME.pack(8, jute.XID_PING, jute.OP_PING))

    def abort(self) -> None:
        """Ends at once; everything in flight is lost."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def _write(self, packet: bytes) -> None:
        self._outgoing.append(packet)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._held:
            self._send_held()
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and not self._is_closed:
            self.sent_ms = self._clock.monotonic_ms()
            self._transport.write(b"".join(outgoing))

    # --- answers ---

    def _greet(self, data: bytes, position: int, end: int) -> None:
        if end - position < jute.CONNECT_RESPONSE.size:
            raise JuteError("connect answer is too short")
        _, timeout_ms, session_id = jute.CONNECT_RESPONSE.unpack_from(data, position)
        password, _ = jute.read_buffer(data, position + jute.CONNECT_RESPONSE.size, end)
        self._handshaken = True
        if not self.connected.done():
            self.connected.set_result(ConnectAnswer(timeout_ms, session_id, password or b""))

    def _answer(self, data: bytes, position: int, end: int) -> None:
        if end - position < jute.REPLY_HEADER.size:
            raise JuteError("answer without a header")
        xid, zxid, code = jute.REPLY_HEADER.unpack_from(data, position)
        position += jute.REPLY_HEADER.size
        if xid == jute.XID_PING:
            return
        if xid == jute.XID_EVENT:
            self._event(data, position, end)
            return
        if not self._pending:
            raise JuteError(f"answer {xid} to nothing")
        expected, request = self._pending[0]
        if xid != expected:
            raise JuteError(f"answer {xid} where {expected} was expected")
        if zxid > self.last_zxid:
            self.last_zxid = zxid
        if isinstance(request, list):
            self._settle_reads(request, code, data, position, end)
        else:
            future, path, _, _, decode, on_answer = request
            if on_answer is not None:
                on_answer(code)
            if not future.done():
                if code != 0:
                    future.set_exception(STORE_ERRORS.get(code, StoreError)(path))
                else:
                    future.set_result(decode(data, position, end) if decode is not None else None)
            self.in_flight -= 1
        # Last: where the answer turns out to be nonsense, its callers hear of the lost connection.
        self._pending.popleft()

    def _settle_reads(self, reads: Reads, code: int, data: bytes, position: int, end: int) -> None:
        if code != 0:
            for request in reads:
                if not request.future.done():
                    request.future.set_exception(STORE_ERRORS.get(code, StoreError)(request.path))
        else:
            multi_read.settle(reads, data, position, end)
            if self.multi_reads is not None:
                self.multi_reads.answered(len(reads), end - position)
        self.in_flight -= len(reads)

    def _refuse(self, length: int) -> None:
        if self._pending and isinstance(self._pending[0][1], list) and self.multi_reads is not None:
            self.multi_reads.give_up()
        raise JuteError(f"answer of {length} bytes")

    def _event(self, data: bytes, position: int, end: int) -> None:
        kind, position = jute.read_int(data, position, end)
        _, position = jute.read_int(data, position, end)
        path, position = jute.read_string(data, position, end)
        if kind not in _EVENT_TYPES:
            raise JuteError(f"unknown event {kind}")
        self._owner.event_received(_EVENT_TYPES[kind], path)


def _lose(requests: Sequence[Request]) -> None:
    for request in requests:
        if not request.future.done():
            request.future.set_exception(ConnectionLossError(request.path))


_REQUEST_FRAME = jute.FRAMED_REQUEST
_EVENT_TYPES = {int(kind): kind for kind in EventType}
