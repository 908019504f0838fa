"""Where a broker asks its controller for renames, and waits for their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.controller.context import ControllerContext
from ottla.controller.events import Event, RenameTopic
from ottla.controller.renaming.progress import Begun, Renamed
from ottla.errors import KafkaError
from ottla.types import TopicId


class RenameDesk:
    """`call` queues an event and answers with its result; `context` is that of the reign, None
    where this broker is not the controller."""

    def __init__(
        self,
        call: Callable[[Event], Awaitable[Any]],
        context: Callable[[], ControllerContext | None],
    ) -> None:
        self._call = call
        self._context = context

    async def rename(
        self, topic: str, new_name: str, topic_id: TopicId, *, validate_only: bool = False
    ) -> KafkaError | Renamed | None:
        """Waits for the end of the rename; None where this broker is not the controller, or does
        not stay it for so long. Whoever stops waiting does not stop the rename."""
        ended: asyncio.Future[KafkaError | Renamed | None]
        ended = asyncio.get_running_loop().create_future()

        def reply(outcome: KafkaError | Renamed | None) -> None:
            if not ended.done():
                ended.set_result(outcome)

        event = RenameTopic(topic, new_name, topic_id, reply, validate_only=validate_only)
        answer: KafkaError | Renamed | Begun | None = await self._call(event)
        return await ended if isinstance(answer, Begun) else answer

    def is_under_way(self, topic: str) -> bool:
        """Whether a topic is on its way from or to this name."""
        context = self._context()
        return context is not None and context.rename_of(topic) is not None
