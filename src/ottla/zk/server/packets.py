"""One connection as a stream of packets: what came and is not served yet, what is on its way out.

A request is served when its client has taken the answers before it, when the disk keeps up, and
when it is its turn; until then nothing more is read from the connection.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Protocol, cast

from ottla.bounds.turns import TURN_MS
from ottla.metadata.store import EventType
from ottla.zk import jute
from ottla.zk.jute import JuteError
from ottla.zk.server.engine import Engine
from ottla.zk.server.holdings import GRAIN_BYTES, Holdings
from ottla.zk.server.peer import Peer

# Answers that wait for the disk or for their client; beyond this its next requests wait as well.
MAX_UNSENT_BYTES = 1 << 20
# Events come without being asked for: a client that reads none of them is cut off beyond this.
MAX_UNREAD_BYTES = 64 << 20
# What a client may send before the store has read its files.
MAX_UNSERVED_BYTES = 1 << 16
# Requests up to this are served while the disk catches up, if the client waits for no other.
SMALL_BYTES = 1 << 14
# Pieces of an answer from here on are written as they are instead of being put together.
LARGE_BYTES = 1 << 17
# How many bytes of requests are served between two looks at the clock.
BYTES_PER_LOOK = 2048


class House(Protocol):
    """The server, as a connection sees it."""

    engine: Engine
    holdings: Holdings
    is_open: bool
    sent: int


class PacketStream(Peer, asyncio.Protocol):
    """Bytes of one connection, in and out, and the bounds on both."""

    def __init__(self, house: House, packet_limit: int) -> None:
        super().__init__(house.engine, "")
        self.packet_limit = packet_limit
        self._house = house
        self._transport: asyncio.Transport | None = None
        # What came and is not served, and how long that has to be before it can be.
        self._rest = bytearray()
        self._needed = 0
        self._closing = False
        # Three reasons not to read: the engine gathers, the client does not take its answers, or
        # it has sent more than could be served.
        self._paused = False
        self._choked = False
        self._has_more = False
        # Whether the last request is still under way.
        self._busy = False
        # Bytes of answers that were not handed to the transport yet.
        self._unsent = 0
        self._noted = 0
        self._clock = house.engine.runtime.clock
        self._turns = house.engine.turns

    # --- what a client is ---

    @abstractmethod
    def serve_packet(self, data: bytes, position: int, end: int) -> None:
        """Raises JuteError where the connection is to be closed."""

    @abstractmethod
    def refuse_length(self, head: bytes) -> bool:
        """Says goodbye to whoever begins with these four bytes, or false: then it is closed."""

    @abstractmethod
    def tell_closing(self, reason: object) -> None: ...

    @abstractmethod
    def touch(self, now_ms: float) -> None:
        """The client has been heard of."""

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._rest or self._has_more:
            self._rest += data
            if self._has_more or len(self._rest) < self._needed:
                self.touch(self._clock.monotonic_ms())
                self.note()
                return
            data = bytes(self._rest)
            self._rest = bytearray()
        if not self._house.is_open:
            self._wait(data)
            return
        now_ms = self._clock.monotonic_ms()
        self.touch(now_ms)
        self._take(data, now_ms + TURN_MS)

    def _wait(self, data: bytes) -> None:
        """The tree is not there yet: nobody sends more than a request for a session until then."""
        self._rest = bytearray(data)
        if len(data) > MAX_UNSERVED_BYTES:
            self.close()

    def serve_what_came(self) -> None:
        if self._rest:
            self.data_received(b"")

    def pause_writing(self) -> None:
        self._choked = True
        self._read_or_not()

    def resume_writing(self) -> None:
        self._choked = False
        self.note()
        if self._has_more and not self._closing:
            self._turns.wait(self)
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
        self._house.sent += len(items)
        packets = cast("list[bytes]", items)
        size = sum(map(len, packets))
        self._unsent -= size
        if size < LARGE_BYTES:
            transport.write(b"".join(packets) if len(packets) != 1 else packets[0])
        else:
            for packet in packets:
                transport.write(packet)
        if last:
            transport.close()
            return
        if size >= GRAIN_BYTES or self._choked:
            self.note()
        if self._has_more and not self._choked and not self._closing:
            self._turns.wait(self)

    def notify(self, kind: EventType, path: str) -> None:
        if not self._closing:
            event = jute.watch_event(kind, path)
            self._unsent += len(event)
            self.engine.pipeline.push_event(self, event)

    def push(self, packet: bytes) -> None:
        """To its client, after everything before it."""
        self._unsent += len(packet)
        self.engine.pipeline.push(self, packet)

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
        if self._paused or self._choked or self._has_more:
            transport.pause_reading()
        elif not self._closing:
            transport.resume_reading()

    # --- its end ---

    def close(self) -> None:
        """When what it was told has left; the server's housekeeping does not wait for ever."""
        self.let_go()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self.let_go()
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, reason: str) -> None:
        """Ends it at once and drops what it was to be told."""
        self.tell_closing(reason)
        self.pending.clear()
        self.unasked = 0
        self.abort()

    def let_go(self) -> None:
        self._closing = True
        self.engine.abandon_watches(self)
        self._turns.forget(self)
        self._rest = bytearray()

    # --- what it holds, and when it is served ---

    @property
    def takes_no_more(self) -> bool:
        """Whether its client has answers enough to read first."""
        return self._choked or self._unsent > MAX_UNSENT_BYTES

    def note(self) -> None:
        """Tells the server what it has to keep for this client, where that has changed much."""
        transport = self._transport
        if transport is None or self._closing:
            return
        unread = self._unsent + transport.get_write_buffer_size()
        if unread > MAX_UNREAD_BYTES:
            self.give_up("it does not read its answers")
            return
        held = len(self._rest) + unread + self.engine.watches.held.get(self, 0)
        if abs(held - self._noted) >= GRAIN_BYTES or held < GRAIN_BYTES <= self._noted:
            self._noted = held
            self._house.holdings.note(self, held)

    def go_on(self, until_ms: float) -> None:
        """Its turn to have more of what it has sent served."""
        if self._closing:
            return
        data, self._rest = bytes(self._rest), bytearray()
        self._has_more = False
        self.touch(self._clock.monotonic_ms())
        self._take(data, until_ms)
        self._read_or_not()

    def _take(self, data: bytes, until_ms: float) -> None:
        try:
            position = self._take_packets(data, until_ms)
        except JuteError as error:
            self.tell_closing(error)
            self.close()
            return
        if self._closing:
            return
        if position < len(data):
            self._rest = bytearray(memoryview(data)[position:])
        if self._has_more:
            self._read_or_not()
        held = len(self._rest) + self._unsent + self.engine.watches.held.get(self, 0)
        if abs(held - self._noted) >= GRAIN_BYTES:
            self.note()

    def _take_packets(self, data: bytes, until_ms: float) -> int:
        """Serves whole packets until the slice is over; returns where the rest begins."""
        position, size = 0, len(data)
        look_at = BYTES_PER_LOOK
        pipeline = self.engine.pipeline
        self._needed = 0
        while size - position >= 4 and not self._closing:
            length = jute.INT.unpack_from(data, position)[0]
            if length < 0 or length > self.packet_limit:
                if self.refuse_length(data[position : position + 4]):
                    return size
                raise JuteError(f"packet of {length} bytes")
            end = position + 4 + length
            if end > size:
                self._needed = 4 + length
                break
            if (
                self._busy
                or self._choked
                or self._unsent > MAX_UNSENT_BYTES
                or (pipeline.is_full and self._waits_for_disk(length))
            ):
                # Somebody will call `go_on`: whoever takes answers, or gives turns.
                self._has_more = True
                break
            if position >= look_at:
                look_at = position + BYTES_PER_LOOK
                if self._clock.monotonic_ms() >= until_ms:
                    self._has_more = True
                    self._turns.wait(self)
                    break
            self.serve_packet(data, position + 4, end)
            position = end
        if self._busy:
            self._has_more = True
        return position

    def _waits_for_disk(self, length: int) -> bool:
        """Whether a request of that length does, now that there is much to be written."""
        if length <= SMALL_BYTES and self.held_zxid <= self.engine.pipeline.durable_zxid:
            return False
        self._turns.wait(self)
        return True
