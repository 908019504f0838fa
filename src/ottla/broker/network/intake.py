"""What one peer has sent and was not served yet: when it is read, and what it holds in memory."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ottla.bounds.turns import TURN_MS
from ottla.broker.network.memory import MIN_BYTES_PER_S, PATIENCE_S, SMALL_BYTES
from ottla.wire.framing import FrameReader

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ottla.broker.network.answers import Answers
    from ottla.broker.network.memory import ConnectionMemory

# Bytes taken from the socket beyond the request under way before reading pauses.
READ_AHEAD_BYTES = 256 * 1024
# Why nothing is read from a peer: it is ahead of what is served, memory is full, or others want
# their turn.
AHEAD, NO_MEMORY, OTHERS = 1, 2, 4
# Connections that are read in one round of the event loop.
CROWD = 16


class ReadingTurn:
    """What all connections of a listener may read in one round of the event loop.

    Each is served once. Where a thousand have something to read libuv asks for more, up to 48
    times, before anything else has its turn; those whose clients have taken their answers meanwhile
    would be served again and again, and new ones, timers and tasks not at all.

    One that fills its buffer is read on, for as long as a turn of all of them together. Those that
    come after it read once: thirty that send as fast as they can hold up a thirty-first no longer
    than one does.
    """

    __slots__ = ("_on_end", "_readers", "_since_ms", "is_crowded", "round")

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called when everybody has been read."""
        self._on_end = on_end
        # Connections that were read in this round.
        self._readers = 0
        # As many were read in the last round as make it worth to append what they send together.
        self.is_crowded = False
        # Its number.
        self.round = 0
        # 0: nobody has filled a buffer in this round.
        self._since_ms = 0.0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody reads."""
        if not self._readers:
            loop.call_soon(self._end_round)
        self._readers += 1

    def is_over(self, now_ms: float) -> bool:
        """Asked after a read that filled the buffer."""
        if not self._since_ms:
            self._since_ms = now_ms
            return False
        return now_ms - self._since_ms >= TURN_MS

    def _end_round(self) -> None:
        self.round += 1
        self.is_crowded = self._readers >= CROWD
        self._readers = 0
        self._since_ms = 0.0
        self._on_end()


class Reading(Protocol):
    """What all connections of a listener read with."""

    read_buffer: memoryview
    # A part of it, where memory is tight.
    small_read_buffer: memoryview
    memory: ConnectionMemory
    turn: ReadingTurn
    # Of the monotonic clock.
    now_ms: Callable[[], float]

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def time(self) -> float:
        """Seconds of the event loop's clock."""


class Intake:
    """Frames of one connection, the bounds on them, and the connection's line in the account of
    memory (`memory.Holder`), with its answers that the peer does not take."""

    __slots__ = (
        "_abort",
        "_answers",
        "_frame_bytes_then",
        "_frame_since",
        "_paused",
        "_reading",
        "_round",
        "_transport",
        "_unserved_bytes",
        "frames",
        "held_bytes",
        "queue",
        "under_way_bytes",
    )

    def __init__(
        self, reading: Reading, answers: Answers, max_bytes: int, abort: Callable[[], None]
    ) -> None:
        self._reading = reading
        # The round of the event loop in which the peer was read last.
        self._round = -1
        self._answers = answers
        self._abort: Callable[[], None] | None = abort
        self.frames = FrameReader(max_bytes)
        # Whole frames.
        self.queue: deque[memoryview] = deque()
        # What was read while the peer had to wait.
        self._unserved_bytes = 0
        # Of the request under way.
        self.under_way_bytes = 0
        # What the account of memory knows of.
        self.held_bytes = 0
        self._transport: asyncio.Transport | None = None
        # Why reading is paused, as bits.
        self._paused = 0
        # When the unfinished frame began, or was read on, and how long it was then.
        self._frame_since, self._frame_bytes_then = 0.0, 0

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def forget(self) -> None:
        """The peer is gone."""
        self.queue.clear()
        self._transport = self._abort = None
        self._reading.memory.forget(self)

    # --- reading ----------------------------------------------------------------------------

    @property
    def buffer(self) -> memoryview:
        """For the next read. One for all connections: what is read is used up before the next one
        reads."""
        reading = self._reading
        memory = reading.memory
        return reading.read_buffer if memory.used < memory.tight_at else reading.small_read_buffer

    def note_read(self, nbytes: int) -> bool:
        """False where the connection has had its turn in this round of the event loop. As long as
        reads fill the buffer libuv reads on, up to 32 times: not for longer than a turn of all
        connections together."""
        reading = self._reading
        turn = reading.turn
        if self._round == turn.round:
            return False
        turn.begin(reading.loop)
        if nbytes < len(reading.read_buffer):
            self._round = turn.round
        elif turn.is_over(reading.now_ms()):
            self.pause(OTHERS)
            reading.loop.call_soon(self.resume, OTHERS)
        return True

    def take(self, data: memoryview, now: float) -> None:
        """Raises FrameTooLarge."""
        is_new = not self.frames.partial
        whole = self.frames.feed(data)
        if is_new or whole:
            self._frame_since, self._frame_bytes_then = now, 0
        self.queue.extend(whole)

    def is_ahead(self, nbytes: int) -> None:
        """So much was read that has to wait."""
        self._unserved_bytes += nbytes
        is_tight = self._reading.memory.is_tight
        if self._unserved_bytes > (SMALL_BYTES if is_tight else READ_AHEAD_BYTES):
            self.pause(AHEAD)

    def is_served(self) -> None:
        """Nothing waits any more."""
        self._unserved_bytes = 0
        self.resume(AHEAD)

    def pause(self, reason: int) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused |= reason

    def resume(self, reason: int) -> None:
        if self._paused & reason:
            self._paused &= ~reason
            transport = self._transport
            if not self._paused and transport is not None and not transport.is_closing():
                transport.resume_reading()

    # --- memory -----------------------------------------------------------------------------

    def count(self) -> None:
        """Tells the account what the connection holds."""
        if self._transport is None:
            return
        held = len(self.frames.partial) + self.under_way_bytes + self.unread_bytes
        if self.queue:
            held += self._unserved_bytes
        if held or self.held_bytes:
            self._reading.memory.note(self, held, self._reading.loop)

    @property
    def missing_bytes(self) -> int:
        """What the unfinished frame lacks; 0 without one."""
        return self.frames.missing_bytes

    @property
    def frame_bytes(self) -> int:
        """What the unfinished frame will have; 0 without one."""
        return self.frames.missing_bytes + len(self.frames.partial)

    @property
    def unread_bytes(self) -> int:
        """Answers that the peer does not take."""
        if self._answers.blocked_since is None or self._transport is None:
            return 0
        return self._answers.rest_bytes + self._transport.get_write_buffer_size()

    def seconds_unread(self) -> float:
        since = self._answers.blocked_since
        return 0.0 if since is None else self._reading.time() - since

    @property
    def is_amid_frame(self) -> bool:
        """The peer has sent a part of a request, and it is its turn to send the rest."""
        return bool(self.frames.partial) and not self._paused

    def is_too_slow(self) -> bool:
        """Whether the frame has come in slowly since this was asked before."""
        now, size = self._reading.time(), len(self.frames.partial)
        seconds = now - self._frame_since
        if not self.is_amid_frame or seconds < PATIENCE_S:
            return False
        arrived = size - self._frame_bytes_then
        self._frame_since, self._frame_bytes_then = now, size
        return arrived < seconds * MIN_BYTES_PER_S

    def pause_for_memory(self) -> None:
        self.pause(NO_MEMORY)

    def resume_for_memory(self) -> None:
        self._frame_since, self._frame_bytes_then = self._reading.time(), len(self.frames.partial)
        self.resume(NO_MEMORY)

    def abort(self) -> None:
        """Others need the memory."""
        if self._abort is not None:
            self._abort()
