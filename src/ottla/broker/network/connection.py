"""One client's connection: requests are served one at a time, answers keep their order.

As Kafka mutes a channel while its request is processed, at most one request of a connection is
under way; what the peer sends meanwhile is read ahead up to a bound, then reading pauses. A peer
that does not take its answers stops being served until it does. There is one exception: batches
for one partition each that wait for followers (acks=all). The next of them is appended while those
before it wait, so that followers fetch them together; answers keep their order all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.broker.context.request import CloseConnection
from ottla.broker.network.answers import Answers
from ottla.broker.network.direct_lane import DirectLane
from ottla.broker.requests import dispatch
from ottla.broker.requests.accounting import Bill, asked_wait_ms, open_bill
from ottla.wire.framing import FrameReader, FrameTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from ottla.bounds.repeated_lines import RepeatedLines
    from ottla.broker.context.services import BrokerServices
    from ottla.broker.quotas.connection_rates import Turn
    from ottla.broker.requests.authentication import Authentication
    from ottla.wire.framing import Chunks

logger = logging.getLogger(__name__)

# Bytes taken from the socket beyond the request under way before reading pauses.
READ_AHEAD_BYTES = 256 * 1024


class Listener(Protocol):
    """What the connections of one listener share: `BrokerServer`."""

    # The name of the listener.
    listener: str
    # False until the broker can serve.
    processing: bool
    max_request_bytes: int
    # Of a peer that is not authenticated yet.
    max_token_bytes: int
    refusal_delay_s: float
    read_buffer: memoryview
    # Lines that any client can cause: about closed connections, about failed requests.
    closings: RepeatedLines
    failures: RepeatedLines

    @property
    def services(self) -> BrokerServices: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def time(self) -> float:
        """Seconds of the event loop's clock."""

    def new_authentication(self) -> Authentication | None:
        """What a new connection has to pass first; None where the listener asks for nothing."""

    def receive(self, connection: ClientConnection) -> Turn:
        """Counts a new connection in and says when it is served, or why it is refused."""

    def forget(self, connection: ClientConnection) -> None:
        """The connection is gone."""


class ClientConnection(asyncio.BufferedProtocol):
    """The socket of one peer and the order in which its requests are served.

    Made by the server for each accepted socket. Its parts: `Answers` are what goes out, the
    `DirectLane` serves Produce requests where they were read, a `Bill` counts what a request costs.
    """

    def __init__(self, server: Listener) -> None:
        self.server = server
        self.last_active = 0.0
        self.client_host = "?"
        self._client_port = 0
        self.principal = "User:ANONYMOUS"
        # What the peer has to pass before its requests are served; None once it has.
        self._authentication = server.new_authentication()
        self._refused = False
        self._frames = FrameReader(
            server.max_request_bytes if self._authentication is None else server.max_token_bytes
        )
        self._queue: deque[memoryview] = deque()
        self._answers = Answers(self._parked_have_left)
        self._direct_lane = DirectLane(server.listener, self._answers)
        self._unserved_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._running: Coroutine[Any, Any, Any] | None = None
        self._muted = False
        self._reading_paused = False
        self._now: Callable[[], float] = server.time

    @property
    def _is_held(self) -> bool:
        """The next request has to wait."""
        return self._task is not None or self._answers.is_blocked or self._muted

    @property
    def busy(self) -> bool:
        """A request is under way."""
        return self._task is not None or bool(self._answers.parked)

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._answers.open(self._transport, self.server.loop)
        peer = transport.get_extra_info("peername")
        if peer:
            self.client_host, self._client_port = str(peer[0]), int(peer[1])
        self._now = asyncio.get_running_loop().time
        self.last_active = self._now()
        wait_ms, refusal = self.server.receive(self)
        if refusal is not None:
            self._refused = True
            if wait_ms:
                self.server.loop.call_later(wait_ms / 1000, self.close, refusal)
            else:
                self.close(refusal)
            return
        self._mute(wait_ms)
        if not self.server.processing:
            self._pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        # One for all connections: what is read is used up before the next one reads.
        return self.server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing or self._refused:
            return
        server = self.server
        self.last_active = self._now()
        data = server.read_buffer[:nbytes]
        taken = 0
        if (
            server.processing
            and self._authentication is None
            and not (self._queue or self._frames.partial or self._is_held)
        ):
            taken = self._direct_lane.serve_in_place(server.services, data, self._frames.max_bytes)
            if taken == nbytes:
                return
        try:
            self._queue.extend(self._frames.feed(data[taken:]))
        except FrameTooLarge as error:
            self.close(str(error))
            return
        # uvloop delivers bytes once more after a pause in `connection_made`.
        if not self._is_held and server.processing:
            self._serve_queue()
            if not self._queue:
                return
        self._unserved_bytes += nbytes - taken
        if self._unserved_bytes > READ_AHEAD_BYTES:
            self._pause_reading()

    def pause_writing(self) -> None:
        self._answers.is_blocked = True

    def resume_writing(self) -> None:
        self._answers.is_blocked = False
        self._serve_queue()

    def connection_lost(self, exc: Exception | None) -> None:
        # A handler under way is not cancelled: what it does (an append, a join) stands.
        self._transport = None
        self._queue.clear()
        self._answers.forget()
        self.server.forget(self)

    # serving

    def start_processing(self) -> None:
        """Called once the broker is ready: connections made before were accepted but not read."""
        self._serve_queue()

    def close(self, reason: str | None = None) -> None:
        """Sends what is already written, then closes; a `reason` goes to the log."""
        self._queue.clear()
        if self._transport is None or self._closing:
            return
        self._answers.flush()
        self._answers.stop()
        self._closing = True
        if reason is not None:
            self._log_closing(reason)
        self._transport.close()

    def evict(self, reason: str) -> None:
        """Ends a connection for which there is no place any more."""
        self._log_closing(reason)
        self.abort()

    def _log_closing(self, reason: str) -> None:
        self.server.closings.log(
            logging.WARNING,
            self.client_host,
            reason,
            "closing connection from %s:%d on listener %s: %s",
            self.client_host,
            self._client_port,
            self.server.listener,
            reason,
        )

    def abort(self) -> None:
        """Closes at once, even where the peer does not read."""
        self._queue.clear()
        self._answers.stop()
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def cancel(self) -> None:
        """Ends the request under way, for the broker's own shutdown."""
        task, running = self._task, self._running
        if task is not None and running is not None:
            task.cancel()
            # A task that has had no turn yet leaves its coroutine behind.
            task.add_done_callback(lambda _: running.close())

    def _serve_queue(self) -> None:
        answers = self._answers
        if not self.server.processing or answers.gathering:
            return
        queue = self._queue
        answers.gathering = True
        try:
            while queue and not self._is_held and self._serve_first(queue):
                pass
        finally:
            answers.gathering = False
            answers.flush()
        if not self._is_held and not queue:
            self._unserved_bytes = 0
            self._resume_reading()

    def _serve_first(self, queue: deque[memoryview]) -> bool:
        """False where the first request has to wait until parked answers have left."""
        if self._authentication is not None:
            self._authenticate(self._authentication, queue.popleft())
            return True
        if self._direct_lane.serve_queued(self.server.services, queue):
            return True
        if self._answers.parked:
            return False
        self._begin(queue.popleft())
        return True

    def _parked_have_left(self) -> None:
        self.last_active = self._now()
        self._serve_queue()

    def _begin(self, frame: memoryview) -> None:
        serving = self._serve(frame)
        rest: Any = serving
        if dispatch.is_eager(frame):
            try:
                waiting = serving.send(None)
            except StopIteration:
                return
            rest = dispatch.resume(serving, waiting)
        self._running = serving
        self._task = self.server.loop.create_task(self._complete(rest))

    async def _serve(self, frame: memoryview) -> None:
        """One request, from its bytes to those of its answer."""
        server = self.server
        services = server.services
        bill = open_bill(services, len(frame), self.principal)
        try:
            call = await dispatch.read_in_turns(frame, services.turns)
            dispatch.begin(services, call, server.listener, self.client_host, self.principal)
            try:
                response = await (call.running if bill is None else bill.run(call))
                await self._answer(call, bill, response)
            except CloseConnection:
                raise
            except Exception as error:
                # Also where the handler's answer does not fit its schema, which is our fault.
                await self._answer_failure(call, bill, dispatch.as_answered(error))
        except CloseConnection as error:
            self.close(str(error))

    def _authenticate(self, authentication: Authentication, frame: memoryview) -> None:
        step = authentication.take(frame)
        if step.refusal is not None:
            # Both the answer and the closing wait: guessing must be slow.
            self._refused = True
            self._queue.clear()
            loop = asyncio.get_running_loop()
            loop.call_later(self.server.refusal_delay_s, self._refuse, step.chunks, step.refusal)
            return
        self._answers.write(step.chunks)
        if authentication.principal is not None:
            self.principal = authentication.principal
            self._authentication = None
            self._frames.max_bytes = self.server.max_request_bytes

    def _refuse(self, chunks: list[bytes | memoryview], reason: str) -> None:
        self._answers.write(chunks)
        self.close(reason)

    async def _complete(self, serving: Any) -> None:
        try:
            await serving
        finally:
            self._task = self._running = None
        self.last_active = self._now()
        self._serve_queue()

    async def _answer(self, call: dispatch.Call, bill: Bill | None, response: Any) -> None:
        self._mute(asked_wait_ms(response) if bill is None else bill.charge(response))
        encoded = dispatch.encode_answer(call, response)
        if isinstance(encoded, list):
            self._answers.write(encoded)
        else:
            await self._encode(encoded)
        if bill is not None:
            bill.close(response)

    async def _answer_failure(
        self, call: dispatch.Call, bill: Bill | None, error: Exception
    ) -> None:
        wait_ms = 0 if bill is None else bill.fail(error)
        self._mute(wait_ms)
        dispatch.log_failure(call, error, self.server.failures, self.client_host)
        await self._encode(dispatch.encode_failure(call, error, wait_ms))

    async def _encode(self, encoding: Generator[None, None, Chunks]) -> None:
        """Most answers are made at once; long ones while others have their turn as well."""
        turns = self.server.services.turns
        work = turns.start(encoding)
        self._answers.write(work.result if work.is_done else await turns.finish(work))

    def _mute(self, wait_ms: int) -> None:
        """Serves nothing for a while: the peer is above its quota."""
        if wait_ms > 0:
            self._muted = True
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted = False
        if self._transport is not None:
            # Being silent was our wish: the time does not count as idle.
            self.last_active = self._now()
            self._serve_queue()

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._closing:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None and not self._closing:
            self._reading_paused = False
            self._transport.resume_reading()
