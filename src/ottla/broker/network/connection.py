"""One client's connection: requests are served one at a time, answers keep their order.

As Kafka mutes a channel while its request is processed, at most one request of a connection is
under way; what the peer sends meanwhile is read ahead up to a bound, then reading pauses. A peer
that does not take its answers stops being served until it does. There is one exception: batches
for one partition each that wait for followers (acks=all). The next of them is appended while those
before it wait, so that followers fetch them together; answers keep their order all the same.

A connection has the event loop for a few milliseconds at a time: whatever else it has sent by then
waits until the others have had their turn. What it holds stands in one account of the memory of
all connections (`broker/network/memory.py`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.bounds.first_step import resume
from ottla.bounds.turns import TURN_MS
from ottla.broker.context.request import CloseConnection
from ottla.broker.network.answers import Answers
from ottla.broker.network.direct_lane import DirectLane, GroupLane
from ottla.broker.network.intake import AHEAD, Intake, Reading
from ottla.broker.requests import dispatch
from ottla.broker.requests.accounting import Bill, asked_wait_ms, open_bill
from ottla.wire.framing import FrameTooLarge

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Generator

    from ottla.bounds.repeated_lines import RepeatedLines
    from ottla.bounds.turns import Turns
    from ottla.broker.context.services import BrokerServices
    from ottla.broker.network.admission import Admission
    from ottla.broker.network.shared_appends import SharedAppends
    from ottla.broker.quotas.connection_rates import Turn
    from ottla.security.sasl.server import Authenticated
    from ottla.wire.framing import Chunks

logger = logging.getLogger(__name__)

# Requests under way that are smaller are not worth counting.
_COUNTED_FROM_BYTES = 4 * 1024
# In the order in which connections are accepted, on all listeners.
_numbers = itertools.count(1)


class Listener(Reading, Protocol):
    """What the connections of one listener share: `BrokerServer`."""

    # The name of the listener.
    listener: str
    # False until the broker can serve.
    processing: bool
    max_request_bytes: int
    # Of a peer that is not authenticated yet.
    max_token_bytes: int
    # Lines that any client can cause: about closed connections, about failed requests.
    closings: RepeatedLines
    failures: RepeatedLines
    # Requests that went to a handler.
    handled_requests: int
    shared_appends: SharedAppends

    @property
    def services(self) -> BrokerServices: ...

    def new_admission(self, connection: ClientConnection, answers: Answers) -> Admission | None:
        """What a new connection has to pass first; None where the listener asks for nothing."""

    def receive(self, connection: ClientConnection) -> Turn:
        """Counts a new connection in and says when it is served, or why it is refused."""

    def forget(self, connection: ClientConnection) -> None:
        """The connection is gone."""


class ClientConnection(asyncio.BufferedProtocol):
    """The socket of one peer and the order in which its requests are served.

    Made by the server for each accepted socket. Its parts: the `Intake` has what came in, `Answers`
    are what goes out, the `DirectLane` serves Produce requests where they were read, a `Bill`
    counts what a request costs.
    """

    def __init__(self, server: Listener) -> None:
        self.server = server
        self._number = next(_numbers)
        self.last_active = 0.0
        self.client_host = "?"
        self._client_port = 0
        self.principal = "User:ANONYMOUS"
        # By a delegation token.
        self._is_by_token = False
        self._answers = Answers(self._answers_have_left, server.now_ms, server.memory)
        # What the peer has to pass before its requests are served; None once it has for good.
        self._admission = server.new_admission(self, self._answers)
        self._refused = False
        self.intake = Intake(
            server,
            self._answers,
            server.max_request_bytes if self._admission is None else server.max_token_bytes,
            self.abort,
        )
        self._frames, self._queue = self.intake.frames, self.intake.queue
        self._direct_lane = DirectLane(server.listener, self._answers, server.now_ms, self._queue)
        self._group_lane = GroupLane(self._answers)
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._running: Coroutine[Any, Any, Any] | None = None
        self._muted = False
        # The next request waits until the others have had their turn.
        self._turn_is_due = False
        self._now: Callable[[], float] = server.time

    @property
    def _is_held(self) -> bool:
        """The next request has to wait."""
        return (
            self._task is not None
            or self._answers.is_blocked
            or self._muted
            or self._turn_is_due
            or self._direct_lane.is_shared
        )

    @property
    def busy(self) -> bool:
        """A request is under way."""
        return self._task is not None or bool(self._answers.parked) or self._direct_lane.is_shared

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._answers.open(self._transport, self.server.loop)
        self.intake.open(self._transport)
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
            self.intake.pause(AHEAD)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.intake.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing or self._refused:
            return
        server, intake = self.server, self.intake
        self.last_active = self._now()
        data = server.read_buffer[:nbytes]
        is_first = intake.note_read(nbytes)
        taken = 0
        if (
            is_first
            and server.processing
            and self._admission is None
            and not (self._queue or self._frames.partial or self._is_held)
        ):
            if server.turn.is_crowded and self._direct_lane.share(
                server.services, server.shared_appends, data, self._frames.max_bytes
            ):
                return
            taken = self._direct_lane.serve_in_place(server.services, data, self._frames.max_bytes)
            if taken == nbytes:
                return
        try:
            intake.take(data[taken:], self.last_active)
        except FrameTooLarge as error:
            self.close(str(error))
            return
        # uvloop delivers bytes once more after a pause in `connection_made`.
        if not self._is_held and server.processing:
            if not is_first or (taken and self._direct_lane.is_over_time):
                self._wait_for_turn()
            else:
                self._serve_queue()
        if self._queue or self._is_held:
            self._direct_lane.is_followed = self._direct_lane.is_shared
            intake.is_ahead(nbytes - taken)
        intake.count()

    def pause_writing(self) -> None:
        self._answers.transport_is_full(self._now())
        self.intake.count()
        self.server.memory.shed_unread(self.intake)

    def resume_writing(self) -> None:
        self.last_active = self._now()
        self._answers.transport_has_room()
        self._serve_queue()
        self.intake.count()

    def connection_lost(self, exc: Exception | None) -> None:
        # A handler under way is not cancelled: what it does (an append, a join) stands.
        self._transport = None
        self.intake.forget()
        self._answers.forget()
        self._admission = None
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
        queue, now_ms = self._queue, self.server.now_ms
        if not queue:
            if not self._is_held:
                self.intake.is_served()
            return
        # Most requests come alone, and need no clock.
        turn_ends_ms = now_ms() + TURN_MS if len(queue) > 1 else 0.0
        answers.gathering = True
        try:
            while queue and not self._is_held and self._serve_first(queue):
                if queue and now_ms() >= turn_ends_ms:
                    self._wait_for_turn()
        finally:
            answers.gathering = False
            answers.flush()
        if not queue and not self._is_held:
            self.intake.is_served()

    def _wait_for_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self.server.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._turn_is_due = False
        self._serve_queue()
        self.intake.count()

    def _serve_first(self, queue: deque[memoryview]) -> bool:
        """False where the first request has to wait until parked answers have left."""
        if self._admission is not None:
            taken = self._admission.serve_first(queue)
            if taken is not None:
                return taken
        services = self.server.services
        if self._group_lane.serve_queued(services, queue):
            return True
        if self._direct_lane.serve_queued(services, queue):
            return True
        if self._answers.parked:
            return False
        self._begin(queue.popleft())
        return True

    def _answers_have_left(self) -> None:
        self.last_active = self._now()
        self._serve_queue()
        self.intake.count()

    def _begin(self, frame: memoryview) -> None:
        self.server.handled_requests += 1
        serving = self._serve(frame)
        rest: Any = serving
        if dispatch.is_eager(frame):
            try:
                waiting = serving.send(None)
            except StopIteration:
                return
            rest = resume(serving, waiting)
        self._running = serving
        self._task = self.server.loop.create_task(self._complete(rest))
        if len(frame) >= _COUNTED_FROM_BYTES:
            self.intake.under_way_bytes = len(frame)

    async def _serve(self, frame: memoryview) -> None:
        """One request, from its bytes to those of its answer."""
        server = self.server
        services = server.services
        bill = open_bill(services, len(frame), self.principal)
        try:
            if len(frame) < dispatch.LARGE_FRAME_BYTES:
                call = dispatch.read(frame)
            else:
                call = await dispatch.read_in_turns(frame, services.turns)
            dispatch.begin(
                services,
                call,
                server.listener,
                self.client_host,
                self.principal,
                by_token=self._is_by_token,
                connection=self._number,
            )
            try:
                response = await (call.running if bill is None else bill.run(call))
                encoded = self._encoded(call, bill, response)
                if isinstance(encoded, list):
                    self._answers.write(encoded)
                else:
                    await _write_in_turns(self._answers, services.turns, encoded)
                if bill is not None:
                    bill.close(response)
            except CloseConnection:
                raise
            except Exception as error:
                # Also where the handler's answer does not fit its schema, which is our fault.
                await self._answer_failure(call, bill, dispatch.as_answered(error))
        except CloseConnection as error:
            self.close(str(error))

    # being let in

    def admit(self, through: Authenticated, *, for_good: bool) -> None:
        identity = through.identity
        self.principal, self._is_by_token = identity.principal, identity.by_token
        self._frames.max_bytes = self.server.max_request_bytes
        if for_good:
            self._admission = None

    def refuse(self, wait_s: float, chunks: list[bytes | memoryview], reason: str) -> None:
        """Reads nothing more, answers after the wait, and closes."""
        self._refused = True
        self._queue.clear()

        def answer() -> None:
            self._answers.write(chunks)
            self.close(reason)

        self.server.loop.call_later(wait_s, answer)

    def hold_back(self, wait_s: float, then: Callable[[], None]) -> None:
        """Serves nothing for a while, then does what is given, then goes on."""

        def go_on() -> None:
            if self._transport is not None:
                then()
            self._unmute()

        self._muted = True
        self.server.loop.call_later(wait_s, go_on)

    async def _complete(self, serving: Any) -> None:
        try:
            await serving
        finally:
            self._task = self._running = None
            self.intake.under_way_bytes = 0
        self.last_active = self._now()
        self._serve_queue()
        self.intake.count()

    def _encoded(
        self, call: dispatch.Call, bill: Bill | None, response: Any
    ) -> Chunks | Generator[None, None, Chunks]:
        wait_ms = asked_wait_ms(response) if bill is None else bill.charge(response)
        if wait_ms > 0:
            self._mute(wait_ms)
        return dispatch.encode_answer(call, response)

    async def _answer_failure(
        self, call: dispatch.Call, bill: Bill | None, error: Exception
    ) -> None:
        wait_ms = 0 if bill is None else bill.fail(error)
        self._mute(wait_ms)
        dispatch.log_failure(call, error, self.server.failures, self.client_host)
        await _write_in_turns(
            self._answers, self.server.services.turns, dispatch.encode_failure(call, error, wait_ms)
        )

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


async def _write_in_turns(
    answers: Answers, turns: Turns, encoding: Generator[None, None, Chunks]
) -> None:
    """Most answers are made at once; long ones while others have their turn as well."""
    work = turns.start(encoding)
    answers.write(work.result if work.is_done else await turns.finish(work))
