"""The answers of one connection on their way out, in the order of their requests."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.broker.requests.parked import Parked

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

# Requests of one connection that wait for followers at the same time.
MAX_PARKED = 128
# Answers to requests that came together leave together, up to this size.
WRITE_TOGETHER_BYTES = 64 * 1024


class Answers:
    """What is ready is written, together with what becomes ready at the same moment. An answer that
    waits for followers is parked, and with it all that have to leave after it."""

    __slots__ = (
        "_loop",
        "_on_parked_left",
        "_outgoing",
        "_outgoing_bytes",
        "_parked_is_due",
        "_transport",
        "gathering",
        "is_blocked",
        "parked",
    )

    def __init__(self, on_parked_left: Callable[[], None]) -> None:
        """`on_parked_left` is called when parked answers have left and there is room again."""
        # The peer does not take what was written.
        self.is_blocked = False
        # Requests are being served: their answers are written at the end.
        self.gathering = False
        self.parked: deque[Parked] = deque()
        self._on_parked_left: Callable[[], None] | None = on_parked_left
        self._parked_is_due = False
        self._outgoing: list[bytes | memoryview] = []
        self._outgoing_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop

    def stop(self) -> None:
        """From now on nothing is written any more."""
        self._transport = None
        self._outgoing.clear()

    def forget(self) -> None:
        """The peer is gone."""
        self.stop()
        self.parked.clear()
        # Breaks the circle with the connection, so that neither waits for the collector.
        self._on_parked_left = None

    @property
    def room(self) -> int:
        """How many more may be parked."""
        return MAX_PARKED - len(self.parked)

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
        if self._on_parked_left is not None:
            self._on_parked_left()

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
            self._outgoing = []
            self._outgoing_bytes = 0
            self._transport.writelines(outgoing)
