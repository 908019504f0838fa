"""The answers of one connection on their way out, in the order of their requests."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, TypeGuard, cast

from ottla.bounds.turns import TURN_MS
from ottla.broker.requests.parked import Parked
from ottla.storage.segment.slices import RecordSlice

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ottla.broker.network.memory import ConnectionMemory

logger = logging.getLogger(__name__)

# Requests of one connection that wait for followers at the same time.
MAX_PARKED = 128
# Answers to requests that came together leave together, up to this size.
WRITE_TOGETHER_BYTES = 64 * 1024
# What is read from files and given to the socket at a time; less where memory is tight. More than a
# transport's high-water mark (64 KiB): uvloop then tries at once, and says whether all has left.
PIECE_BYTES = 256 * 1024
TIGHT_PIECE_BYTES = 32 * 1024
# Records of this size and above go from their file to the socket without a copy; with fewer, one
# write together with what is around them is as good (ADR 49). And how much goes at a time.
SENT_FROM_BYTES = 256 * 1024
SEND_BYTES = 512 * 1024


def _plain_socket(transport: asyncio.Transport) -> int:
    """Its descriptor; -1 where records have to be encrypted, or where there is no socket."""
    if any(transport.get_extra_info(name) is not None for name in ("ssl_object", "sslcontext")):
        return -1
    found = transport.get_extra_info("socket")
    return -1 if found is None or not hasattr(os, "sendfile") else int(found.fileno())


def _cork(socket_fd: int, *, is_on: bool) -> None:
    """While it is on only full segments leave: what is around records that go by themselves leaves
    together with them, not in packets of a few bytes that wake the peer up for nothing."""
    if not hasattr(socket, "TCP_CORK"):
        return
    # The family is not asked for: this is only a way to the system call.
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, socket_fd)
    try:
        with suppress(OSError):  # no TCP: it works without
            borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, is_on)
    finally:
        borrowed.detach()


class Answers:
    """What is ready is written, together with what becomes ready at the same moment. An answer that
    waits for followers is parked, and with it all that have to leave after it.

    Large answers leave piece by piece, as the peer takes them: records are read from their files
    only then.
    """

    __slots__ = (
        "_begun_bytes",
        "_loop",
        "_memory",
        "_now_ms",
        "_on_room",
        "_outgoing",
        "_outgoing_bytes",
        "_parked_is_due",
        "_piece_is_due",
        "_rest",
        "_socket_fd",
        "_transport",
        "blocked_since",
        "gathering",
        "is_blocked",
        "parked",
        "rest_bytes",
    )

    def __init__(
        self, on_room: Callable[[], None], now_ms: Callable[[], float], memory: ConnectionMemory
    ) -> None:
        """`on_room` is called when answers have left, parked or large ones, and there is room
        again."""
        # The peer has not taken all that it was answered.
        self.is_blocked = False
        # Since when the transport takes no more; None: it does.
        self.blocked_since: float | None = None
        # What the transport does not have yet, and how much of the first it has.
        self._rest: deque[bytes | memoryview | RecordSlice] = deque()
        self._begun_bytes = 0
        # Of those that are in memory.
        self.rest_bytes = 0
        self._piece_is_due = False
        self._now_ms = now_ms
        self._memory = memory
        # Requests are being served: their answers are written at the end.
        self.gathering = False
        self.parked: deque[Parked] = deque()
        self._on_room: Callable[[], None] | None = on_room
        self._parked_is_due = False
        self._outgoing: list[bytes | memoryview] = []
        self._outgoing_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of a connection that is not encrypted, -1 of any other; looked up when it is needed, which
        # for most connections is never.
        self._socket_fd: int | None = None

    def open(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop

    def stop(self) -> None:
        """From now on nothing is written any more."""
        self._transport = None
        self._outgoing.clear()
        self._rest.clear()
        self.rest_bytes = 0

    def forget(self) -> None:
        """The peer is gone."""
        self.stop()
        self.parked.clear()
        # Breaks the circle with the connection, so that neither waits for the collector.
        self._on_room = None

    @property
    def room(self) -> int:
        """How many more may be parked."""
        return max(0, MAX_PARKED - len(self.parked))

    def send(self, answers: list[bytes | Parked]) -> None:
        """Answers to Produce requests that came one after the other."""
        if not self.parked and isinstance(answers[0], bytes):
            # Followers are waited for by all of them or by none.
            together = b"".join(answers)  # type: ignore[arg-type]  # bytes, all of them
            if together:
                self.write([together])
            return
        for answer in answers:
            if isinstance(answer, Parked):
                self._park(answer)
            elif answer:
                after = Parked()
                after.ready([answer])
                self._park(after)

    def send_one(self, answer: bytes | Parked) -> None:
        """The answer to a Produce request that came alone; most leave at once."""
        transport = self._transport
        if (
            transport is not None
            and isinstance(answer, bytes)
            and not (self.parked or self._outgoing or self._rest or self.gathering)
        ):
            if answer:
                transport.write(answer)
        else:
            self.send([answer])

    def _park(self, answer: Parked) -> None:
        if answer.chunks is not None and not self.parked:
            self.write(answer.chunks)
            return
        answer.on_ready = self._send_parked_soon
        self.parked.append(answer)

    def _send_parked_soon(self) -> None:
        """Not at once: whatever made the answer ready is in the middle of its own work, and more of
        them may be ready by its end."""
        if not self._parked_is_due and self._loop is not None:
            self._parked_is_due = True
            self._loop.call_soon(self._send_parked)

    def _send_parked(self) -> None:
        self._parked_is_due = False
        parked = self.parked
        chunks: list[bytes | memoryview] = []
        while parked and parked[0].chunks is not None:
            chunks += parked.popleft().chunks or ()
        self.write(chunks)
        self.tell_of_room()

    def tell_of_room(self) -> None:
        """The next requests may be served."""
        if self._on_room is not None:
            self._on_room()

    def write(self, chunks: list[bytes | memoryview]) -> None:
        if self._transport is None:
            return
        self._outgoing += chunks
        for chunk in chunks:
            self._outgoing_bytes += len(chunk)
        if not self.gathering or self._outgoing_bytes > WRITE_TOGETHER_BYTES:
            self.flush()

    def flush(self) -> None:
        outgoing = self._outgoing
        if outgoing and self._transport is not None:
            size, self._outgoing_bytes = self._outgoing_bytes, 0
            self._outgoing = []
            # Records that are still in their files make an answer a large one.
            if size < WRITE_TOGETHER_BYTES and not self._rest:
                self._transport.writelines(outgoing)
            else:
                for chunk in cast("list[bytes | memoryview | RecordSlice]", outgoing):
                    self._rest.append(chunk)
                    if not isinstance(chunk, RecordSlice):
                        self.rest_bytes += len(chunk)
                self._write_rest()

    # --- large answers ----------------------------------------------------------------------

    def transport_is_full(self, now: float) -> None:
        """The peer does not take what was written."""
        self.blocked_since = now
        self.is_blocked = True

    def transport_has_room(self) -> None:
        """It does again."""
        self.blocked_since = None
        self._write_rest()

    def _write_rest(self) -> None:
        """Until the transport is full, or others want their turn."""
        rest = self._rest
        turn_ends_ms = self._now_ms() + TURN_MS
        is_corked = False
        while rest and self.blocked_since is None and self._transport is not None:
            piece: list[bytes | memoryview] = []
            if not self._send_from_file():
                try:
                    piece = self._next_piece()
                except OSError as error:
                    self._give_up(error)
                    return
            if not is_corked and rest and self._goes_uncopied(rest[0]):
                is_corked = self._set_corked(True)
            if piece:
                self._transport.writelines(piece)
            if rest and self._now_ms() >= turn_ends_ms:
                self._write_rest_soon()
                break
        if is_corked:
            self._set_corked(False)
        self.is_blocked = self.blocked_since is not None or bool(rest)

    def _set_corked(self, is_on: bool) -> bool:
        transport = self._transport
        # Its descriptor may be somebody else's by now.
        if transport is None or transport.is_closing():
            return False
        _cork(self._plain_socket_fd, is_on=is_on)
        return is_on

    def _write_rest_soon(self) -> None:
        if not self._piece_is_due and self._loop is not None:
            self._piece_is_due = True
            self._loop.call_soon(self._write_rest_now)

    def _write_rest_now(self) -> None:
        self._piece_is_due = False
        was_blocked = self.is_blocked
        self._write_rest()
        if was_blocked and not self.is_blocked:
            self.tell_of_room()

    def _send_from_file(self) -> bool:
        """Records go from the page cache to the socket (sendfile), as far as it takes them: False
        where it takes none, or where this is not for it to do. Then they are read and written:
        what the transport has of them makes it say when there is room again."""
        first = self._rest[0]
        transport = self._transport
        if (
            not self._goes_uncopied(first)
            or transport is None
            # Its descriptor may be somebody else's by now.
            or transport.is_closing()
            or transport.get_write_buffer_size()
        ):
            return False
        try:
            sent = first.send(self._plain_socket_fd, self._begun_bytes, SEND_BYTES)
        except OSError:
            # Full, or broken: the transport finds out which. Or the records are gone: so does
            # who reads them.
            return False
        self._begun_bytes += sent
        if self._begun_bytes == len(first):
            self._rest.popleft()
            self._begun_bytes = 0
        return sent > 0

    def _goes_uncopied(self, chunk: bytes | memoryview | RecordSlice) -> TypeGuard[RecordSlice]:
        return (
            isinstance(chunk, RecordSlice)
            and len(chunk) >= SENT_FROM_BYTES
            and self._plain_socket_fd >= 0
        )

    @property
    def _plain_socket_fd(self) -> int:
        if self._socket_fd is None:
            transport = self._transport
            self._socket_fd = -1 if transport is None else _plain_socket(transport)
        return self._socket_fd

    def _next_piece(self) -> list[bytes | memoryview]:
        """Raises OSError where records cannot be had any more."""
        rest = self._rest
        left = TIGHT_PIECE_BYTES if self._memory.is_tight else PIECE_BYTES
        piece: list[bytes | memoryview] = []
        while rest and left > 0:
            first, start = rest[0], self._begun_bytes
            if isinstance(first, RecordSlice):
                if piece and self._goes_uncopied(first):
                    break
                taken: bytes | memoryview = first.read(start, left)
            elif start or len(first) > left:
                taken = memoryview(first)[start : start + left]
            else:
                taken = first
            piece.append(taken)
            left -= len(taken)
            self._begun_bytes = start + len(taken)
            if self._begun_bytes == len(first):
                rest.popleft()
                self._begun_bytes = 0
                if not isinstance(first, RecordSlice):
                    self.rest_bytes -= len(first)
        return piece

    def _give_up(self, error: OSError) -> None:
        """The answer has begun: there is no other way to say that it does not go on."""
        logger.info("an answer could not be sent to its end: %s", error)
        transport = self._transport
        self.stop()
        self.is_blocked = True
        if transport is not None:
            transport.abort()
