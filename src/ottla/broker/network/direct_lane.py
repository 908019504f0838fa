"""The short way of Produce requests through a connection: where they were read, without a handler.

Which requests can go it, and how they are appended, is `broker/requests/direct_produce.py`.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING

from ottla.bounds.turns import TURN_MS
from ottla.broker.requests.direct_produce import PRODUCE_KEY, DirectProduce

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from ottla.broker.context.services import BrokerServices
    from ottla.broker.network.answers import Answers
    from ottla.broker.requests.parked import Parked

# Produce requests that are appended with one write.
MAX_TOGETHER = 64
_LENGTH_BYTES = 4
# A frame's length and the first field of its request.
_LENGTH_AND_KEY = struct.Struct(">ih")


class DirectLane:
    """One per connection: what it appends is answered through the connection's `answers`."""

    __slots__ = ("_answers", "_direct_produce", "_now_ms", "is_over_time")

    def __init__(self, listener: str, answers: Answers, now_ms: Callable[[], float]) -> None:
        self._direct_produce = DirectProduce(listener)
        self._answers = answers
        self._now_ms = now_ms
        # The last `serve_in_place` ended because others want their turn.
        self.is_over_time = False

    def serve_in_place(self, services: BrokerServices, data: memoryview, max_bytes: int) -> int:
        """Serves Produce requests where they were read, without a copy of them; how many bytes
        they had. Only those that need no handler, from the first one on."""
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
        quotas = services.client_quotas
        if (
            services.authorizer is not None
            or services.request_metrics is not None
            or (quotas is not None and quotas.is_active)
        ):
            return []
        return self._direct_produce.answers(services.replica_manager.appends, frames)


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
