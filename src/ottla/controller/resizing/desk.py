"""Where a broker asks its controller for the steps of a resize, and waits for their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from ottla.controller.context import ControllerContext
from ottla.controller.events import (
    AbortResize,
    BeginResize,
    Event,
    FenceResize,
    FinishResize,
    GroupOffsets,
)
from ottla.controller.resizing.progress import Begun, Fenced, Resized, Waiting
from ottla.errors import KafkaError
from ottla.metadata.resizes import StoredResize
from ottla.wire import messages as m


class ResizeDesk:
    """`call` queues an event and answers with its result; `context` is that of the reign, None
    where this broker is not the controller. All answers are None there."""

    def __init__(
        self,
        call: Callable[[Event], Awaitable[Any]],
        context: Callable[[], ControllerContext | None],
    ) -> None:
        self._call = call
        self._context = context

    async def begin(self, request: m.BeginResizeRequest) -> KafkaError | Begun | None:
        event = BeginResize(
            request.topic,
            request.partitions,
            request.replication_factor,
            request.partitioner,
            request.validate_only,
        )
        return cast("KafkaError | Begun | None", await self._call(event))

    async def fence(self, request: m.FenceResizeRequest) -> KafkaError | Fenced | None:
        """Waits until the fence stands."""
        answer = await self._call_and_wait(
            lambda reply: FenceResize(request.topic, request.topic_id, request.fence, reply)
        )
        return cast("KafkaError | Fenced | None", answer)

    async def finish(
        self, request: m.FinishResizeRequest, groups: Sequence[GroupOffsets]
    ) -> KafkaError | Resized | None:
        """Waits until the new topic takes records. Whoever stops waiting does not stop it."""
        answer = await self._call_and_wait(
            lambda reply: FinishResize(
                request.topic,
                request.topic_id,
                request.shadow_id,
                request.fence,
                groups,
                request.guard_keys,
                reply,
            )
        )
        return cast("KafkaError | Resized | None", answer)

    async def abort(self, topic: str) -> KafkaError | bool | None:
        """True where it is undone."""
        return cast("KafkaError | bool | None", await self._call(AbortResize(topic)))

    def under_way(self) -> list[StoredResize] | None:
        context = self._context()
        if context is None:
            return None
        return [resize.stored for resize in context.resizes.values()]

    async def _call_and_wait(self, event: Callable[[Callable[[Any], None]], Event]) -> Any:
        """The answer of an event, or what is told later where it says so."""
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(outcome: Any) -> None:
            if not ended.done():
                ended.set_result(outcome)

        answer = await self._call(event(reply))
        return await ended if isinstance(answer, Waiting) else answer
