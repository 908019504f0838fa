"""What brokers ask of the trash, and the clock (ADR 50)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from ottla.controller.context import ControllerContext
from ottla.controller.events import Event, PurgeDeletedTopic, TrashExpiry, UndeleteTopic
from ottla.controller.queue import EventQueue
from ottla.controller.trash import keeping
from ottla.errors import KafkaError
from ottla.runtime import Clock
from ottla.types import TopicId

MIN_STEP_S = 0.2
MAX_STEP_S = 60.0


class TrashRequests:
    """None as an answer: this broker is not, or no longer, the controller."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    async def undelete_topic(
        self, topic: str, topic_id: TopicId | None, name: str | None
    ) -> TopicId | KafkaError | None:
        """The id of what came back, or why it cannot."""
        answer = await self._queue.call(UndeleteTopic(topic, topic_id, name))
        return cast("TopicId | KafkaError | None", answer)

    async def purge_deleted_topic(
        self, topic: str, topic_id: TopicId | None
    ) -> TopicId | KafkaError | None:
        """The id of what goes, or why it cannot."""
        answer = await self._queue.call(PurgeDeletedTopic(topic, topic_id))
        return cast("TopicId | KafkaError | None", answer)


class ExpiryTimer:
    """One timer, for what has to leave the trash next."""

    def __init__(self, clock: Clock, post: Callable[[Event], None]) -> None:
        self._clock = clock
        self._post = post
        self._timer: asyncio.TimerHandle | None = None
        # What the timer waits for, by the wall clock.
        self._due_ms: int | None = None

    def schedule(self, context: ControllerContext) -> None:
        """After every event; does nothing where nothing has changed."""
        due_ms = keeping.next_due_ms(context) if context.trash else None
        if due_ms == self._due_ms:
            return
        self.cancel()
        self._due_ms = due_ms
        if due_ms is not None:
            # In steps: the wall clock may be set meanwhile.
            delay_s = (due_ms - self._clock.now_ms()) / 1000
            delay_s = min(max(delay_s, MIN_STEP_S), MAX_STEP_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer, self._due_ms = None, None
        self._post(TrashExpiry(self._clock.now_ms()))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due_ms = None, None
