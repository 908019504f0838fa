"""The short way of Produce requests through a connection: where they were read, without a handler.

Which requests can go it, and how they are appended, is `broker/requests/direct_produce.py`.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING

from ottla.bounds.turns import TURN_MS
from ottla.broker.network.shared_appends import MOST_REQUEST_BYTES
from ottla.broker.requests.direct_groups import COMMIT_KEY, HEARTBEAT_KEY, DirectGroups
from ottla.broker.requests.direct_produce import PRODUCE_KEY, DirectProduce

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from ottla.broker.context.services import BrokerServices
    from ottla.broker.network.answers import Answers
    from ottla.broker.network.shared_appends import SharedAppends
    from ottla.broker.requests.parked import Parked

# Produce requests that are appended with one write.
MAX_TOGETHER = 64
_LENGTH_BYTES = 4
_PRODUCE_KEY_BYTES = PRODUCE_KEY.to_bytes(2, "big")
_GROUP_KEYS = (COMMIT_KEY, HEARTBEAT_KEY)
# Key, version and correlation id.
_LEAST_BYTES = 8
# A frame's length and the first field of its request.
_LENGTH_AND_KEY = struct.Struct(">ih")


class DirectLane:
    """One per connection: what it appends is answered through the connection's `answers`."""

    __slots__ = (
        "_answers",
        "_direct_produce",
        "_has_passed",
        "_now_ms",
        "_queue",
        "is_followed",
        "is_over_time",
        "is_shared",
    )

    def __init__(
        self,
        listener: str,
        answers: Answers,
        now_ms: Callable[[], float],
        queue: deque[memoryview],
    ) -> None:
        """`queue` has the requests of the connection that wait."""
        self._direct_produce = DirectProduce(listener)
        self._answers = answers
        self._queue = queue
        self._now_ms = now_ms
        # The request that comes first into the queue was looked at, and is its handler's.
        self._has_passed = False
        # The last `serve_in_place` ended because others want their turn.
        self.is_over_time = False
        # A request is under way that is appended together with those of other connections.
        self.is_shared = False
        # Bytes came behind that request; reading may be paused because of them.
        self.is_followed = False

    def share(
        self,
        services: BrokerServices,
        shared: SharedAppends,
        data: memoryview,
        max_bytes: int,
    ) -> bool:
        """Leaves a Produce request to be appended with others; False where the bytes are anything
        else. Nothing may wait before it."""
        size = len(data)
        if (
            size > MOST_REQUEST_BYTES
            or not _LEAST_BYTES <= size <= max_bytes
            or not self._answers.room
            or _LENGTH_AND_KEY.unpack_from(data) != (size - _LENGTH_BYTES, PRODUCE_KEY)
            or not is_open(services)
        ):
            return False
        frame = memoryview(bytearray(data))[_LENGTH_BYTES:]
        read = self._direct_produce.read_one(frame)
        if read is None:
            return False
        form, correlation_id, batch = read
        self.is_shared = True
        shared.add((form, correlation_id, frame, batch, self._answers, self._shared_is_done))
        if shared.is_full:
            shared.flush(services.replica_manager.appends)
        return True

    def _shared_is_done(self, frame: memoryview | None) -> None:
        """Its request was answered, or is given back for the handler."""
        self.is_shared = False
        if frame is not None:
            self._has_passed = True
            self._queue.appendleft(frame)
        if self._queue or self.is_followed:
            self.is_followed = False
            self._answers.tell_of_room()

    def serve_in_place(self, services: BrokerServices, data: memoryview, max_bytes: int) -> int:
        """Serves Produce requests where they were read, without a copy of them; how many bytes
        they had. Only those that need no handler, from the first one on. Nothing may wait before
        them; the next one goes into the queue."""
        position, size = 0, len(data)
        answers = self._answers
        turn_ends_ms = 0.0
        self.is_over_time = False
        answers.gathering = True
        try:
            while frames := whole_produce_frames(
                data, position, max_bytes, min(MAX_TOGETHER, answers.room)
            ):
                made = self._append(services, frames)
                if not made:
                    self._has_passed = True
                    break
                for frame in frames[: len(made)]:
                    position += _LENGTH_BYTES + len(frame)
                answers.send(made)
                if position == size or answers.is_blocked:
                    break
                if not turn_ends_ms:
                    # Most reads bring no more than this, and need no clock.
                    turn_ends_ms = self._now_ms() + TURN_MS
                elif self._now_ms() >= turn_ends_ms:
                    self.is_over_time = True
                    break
        finally:
            answers.gathering = False
            answers.flush()
        return position

    def serve_queued(self, services: BrokerServices, queue: deque[memoryview]) -> bool:
        """Serves the first requests of a queue; False where the first one needs its handler."""
        if self._has_passed:
            self._has_passed = False
            return False
        if queue[0][:2] != _PRODUCE_KEY_BYTES:
            return False
        answers = self._answers
        made = self._append(services, islice(queue, min(MAX_TOGETHER, answers.room)))
        if not made:
            return False
        for _ in made:
            queue.popleft()
        answers.send(made)
        return True

    def _append(
        self, services: BrokerServices, frames: Iterable[memoryview]
    ) -> list[bytes | Parked]:
        """The answers to the first requests; none where the first one needs the handler."""
        if not is_open(services):
            return []
        return self._direct_produce.answers(services.replica_manager.appends, frames)


class GroupLane:
    """One per connection, for OffsetCommit and Heartbeat of its members."""

    __slots__ = ("_answers", "_direct_groups")

    def __init__(self, answers: Answers) -> None:
        self._direct_groups = DirectGroups()
        self._answers = answers

    def serve_queued(self, services: BrokerServices, queue: deque[memoryview]) -> bool:
        """Serves the first request of a queue; False where it needs its handler."""
        frame, answers = queue[0], self._answers
        if (
            len(frame) < _LEAST_BYTES
            or frame[1] not in _GROUP_KEYS
            or frame[0]
            or not answers.room
            or not is_open(services)
        ):
            return False
        answer = self._direct_groups.answer(services, frame)
        if answer is None:
            return False
        queue.popleft()
        answers.send([answer])
        return True


def is_open(services: BrokerServices) -> bool:
    """Whether requests are served without a look at who sends them or how many there are."""
    quotas = services.client_quotas
    return (
        services.authorizer is None
        and services.request_metrics is None
        and (quotas is None or not quotas.is_active)
    )


def whole_produce_frames(data: memoryview, end: int, max_bytes: int, most: int) -> list[memoryview]:
    """The Produce requests that lie whole in some bytes from a position on, without a gap."""
    frames: list[memoryview] = []
    size = len(data)
    while size - end > _LENGTH_AND_KEY.size and len(frames) < most:
        length, api_key = _LENGTH_AND_KEY.unpack_from(data, end)
        start, end = end + _LENGTH_BYTES, end + _LENGTH_BYTES + length
        if api_key != PRODUCE_KEY or end > size or not 0 <= length <= max_bytes:
            break
        frames.append(data[start:end])
    return frames
