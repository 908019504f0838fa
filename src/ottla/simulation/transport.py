"""A connection's two ends, with asyncio's transport semantics and flow control."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from ottla.errors import InvariantViolated

if TYPE_CHECKING:
    from ottla.simulation.links import Links
    from ottla.simulation.loop import Process

HIGH_WATER_BYTES = 64 * 1024
# A process that was killed may have bytes on their way: sometimes they arrive, sometimes not.
_LAST_BYTES_LOST_SHARE = 0.5

_FIN = 1
_RESET = 2


class Pipe:
    """Bytes from one end to the other, in order, each chunk with its time of arrival."""

    def __init__(self, links: Links, source: SimTransport, target: SimTransport) -> None:
        self._links = links
        self._source = source
        self._target = target
        self._queue: deque[tuple[float, bytes | int]] = deque()
        self._last_arrival = 0.0
        self._armed: asyncio.TimerHandle | None = None
        self.size = 0

    def send(self, item: bytes | int) -> None:
        arrival = self._links.arrival(self._source.host, self._target.host)
        self._last_arrival = max(self._last_arrival, arrival)
        self._queue.append((self._last_arrival, item))
        if isinstance(item, bytes):
            self.size += len(item)
        self.kick()

    def drop(self) -> None:
        self._queue.clear()
        self.size = 0

    def kick(self) -> None:
        """Sets the timer for the next chunk, unless the receiver does not read."""
        if self._armed is None and self._queue and self._target.wants_more(self._queue[0][1]):
            loop, process = self._links.loop, self._target.process
            when = max(self._queue[0][0], loop.time())
            if process.turns is None:
                self._armed = loop.call_at(when, self._arrive, context=process.context)
            else:
                read = asyncio.Handle(self._arrive, (), loop, process.context)
                self._armed = process.turns.readable_at(when, read)

    def _arrive(self) -> None:
        self._armed = None
        if not self._queue or self._links.between(self._source.host, self._target.host).cut:
            return
        arrival, item = self._queue[0]
        if not self._target.wants_more(item):
            return
        if arrival <= self._links.loop.time():
            self._queue.popleft()
            if isinstance(item, bytes):
                self.size -= len(item)
                self._source.drained()
            self._target.take(item)
        self.kick()


class SimTransport(asyncio.Transport):
    """One end. Everything it tells its protocol happens in the protocol's own process.

    It stands in `registry` until it is gone.
    """

    def __init__(
        self,
        links: Links,
        registry: dict[SimTransport, None],
        process: Process,
        protocol: asyncio.BaseProtocol | None,
        local: tuple[str, int],
        remote: tuple[str, int],
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.process = process
        self.host, self.peer_host = local[0], remote[0]
        self._links = links
        self._registry = registry
        self._protocol = protocol
        self._peer: SimTransport | None = None
        self._pipe: Pipe | None = None
        self._reading = protocol is not None
        self._closing = False
        self._gone = False
        self._write_paused = False
        self._high = HIGH_WATER_BYTES
        self._low = HIGH_WATER_BYTES // 4
        registry[self] = None

    @property
    def outgoing(self) -> Pipe:
        if self._pipe is None:
            raise InvariantViolated("the transport has no other end")
        return self._pipe

    @property
    def peer(self) -> SimTransport:
        if self._peer is None:
            raise InvariantViolated("the transport has no other end")
        return self._peer

    def pair(self, other: SimTransport) -> None:
        self._peer, other._peer = other, self
        self._pipe = Pipe(self._links, self, other)
        other._pipe = Pipe(self._links, other, self)

    def accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """On the listening side, in its process: the protocol learns of the connection."""
        if self._gone:
            return
        self._protocol = factory()
        self._reading = True
        self._protocol.connection_made(self)
        self.peer.outgoing.kick()

    # asyncio.Transport

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self._protocol)

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing:
            self._reading = True
            self.peer.outgoing.kick()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self.outgoing.size

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._closing or not data:
            return
        copied = bytes(data)
        self._links.note(self.host, self.peer_host, copied)
        for piece in self._links.pieces(copied):
            self.outgoing.send(piece)
        if self.outgoing.size > self._high and not self._write_paused:
            self._write_paused = True
            self.get_protocol().pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.outgoing.send(_FIN)
            self._lose_later(None)

    def abort(self) -> None:
        if not self._gone:
            self._closing = True
            self.outgoing.drop()
            self.outgoing.send(_RESET)
            self._lose_later(None)

    # the network's side

    def wants_more(self, item: bytes | int) -> bool:
        """A reset is noticed at once; bytes and the end wait for a reader."""
        return self._reading or self._closing or item == _RESET

    def take(self, item: bytes | int) -> None:
        if self._closing:
            if isinstance(item, bytes) and not self.peer._gone:
                # Nobody reads here any more: the sender is told.
                self.outgoing.send(_RESET)
            return
        if item == _RESET:
            self._closing = True
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif isinstance(item, bytes):
            self._deliver(item)
        elif not cast("asyncio.Protocol", self._protocol).eof_received():
            self.close()

    def _deliver(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            cast("asyncio.Protocol", protocol).data_received(data)
            return
        while data and not self._closing:
            buffer = memoryview(protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]

    def drained(self) -> None:
        """The other end took bytes; the protocol may write again when few enough are left."""
        if self._write_paused and self.outgoing.size <= self._low:
            self._write_paused = False
            if not self._gone:
                self._links.loop.call_soon(
                    self.get_protocol().resume_writing, context=self.process.context
                )

    def reset_both(self) -> None:
        for end in (self, self.peer):
            if not end._closing:
                end._closing = True
                end.outgoing.drop()
                end._lose_later(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def orphan(self, *, silently: bool) -> None:
        """This end's process is gone. `silently`: not even its kernel says so."""
        was_closing, self._closing = self._closing, True
        self._forget()
        if silently:
            self.outgoing.drop()
        elif not was_closing:
            if self._links.random.random() < _LAST_BYTES_LOST_SHARE:
                self.outgoing.drop()
                self.outgoing.send(_RESET)
            else:
                self.outgoing.send(_FIN)

    def turn_away(self) -> None:
        """Nobody will accept this connection: the socket that it came to is closed."""
        if not self._gone:
            self._closing = True
            self._forget()
            self.outgoing.drop()
            self.outgoing.send(_RESET)

    def _lose_later(self, error: Exception | None) -> None:
        self._links.loop.call_soon(self._lose, error, context=self.process.context)

    def _lose(self, error: Exception | None) -> None:
        if not self._gone:
            self._forget()
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def _forget(self) -> None:
        self._gone = True
        self._registry.pop(self, None)
