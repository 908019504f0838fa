"""Fences that the controller raises and lifts; where its word does not come, the store has it.

Each has an entry in the store. The entry is there before the controller asks for the fence, and is
looked at once a second as long as the fence stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ottla.metadata.store import NoNodeError, StoreError

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
# How long an answer waits for what will be over in a moment. The controller's other requests to
# this broker wait behind it.
_PATIENCE_S = 0.2
_PAUSE_S = 0.01


async def moment_for(is_over: Callable[[], bool]) -> None:
    """Waits for it, but not long."""
    for _ in range(round(_PATIENCE_S / _PAUSE_S)):
        if is_over():
            return
        await asyncio.sleep(_PAUSE_S)


async def pause_unless(done: Collection[int], asked: Collection[int]) -> None:
    """Before the answer, where not all was done that was asked for: the controller asks again at
    once, and what is in the way (a log below its in-sync replicas, say) may stay there."""
    if not set(asked) <= set(done):
        await asyncio.sleep(_PATIENCE_S)


class FenceWatches:
    """`path` is that of a topic's entry, `stands` says what the entry means, and `lift` is told of
    the topic whose fence stands no longer: it ends the watch."""

    def __init__(
        self,
        store: MetadataStore,
        path: Callable[[TopicId], str],
        stands: Callable[[bytes | None], bool],
        lift: Callable[[str], None],
    ) -> None:
        self._store = store
        self._path = path
        self._stands = stands
        self._lift = lift
        # By topic: whose entry is looked at, and who looks.
        self._watches: dict[str, tuple[TopicId, asyncio.Task[None]]] = {}
        # Orders so far: what was read before one does not undo it.
        self._orders = 0

    def note_order(self) -> None:
        self._orders += 1

    def begin(self, topic: str, topic_id: TopicId) -> bool:
        """Whether this is a fence of its own: the one before, if any, was another topic's of that
        name, and of its end this broker has not heard."""
        self.note_order()
        known = self._watches.get(topic)
        if known is not None and known[0] == topic_id:
            return False
        self.end(topic)
        watch = asyncio.get_running_loop().create_task(self._watch(topic, topic_id))
        self._watches[topic] = topic_id, watch
        return True

    def end(self, topic: str) -> None:
        _, watch = self._watches.pop(topic, (None, None))
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()

    async def close(self) -> None:
        """Fences stay as they are: until the end nothing passes that has not passed so far."""
        for topic in list(self._watches):
            self.end(topic)

    async def _watch(self, topic: str, topic_id: TopicId) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            orders = self._orders
            try:
                is_standing = await self._look(topic_id)
            except StoreError as error:
                logger.debug("whether %s is still fenced is not known: %r", topic, error)
                continue
            if not is_standing and orders == self._orders:
                break
        logger.info("the fence of %s is lifted, by what the store says", topic)
        self._lift(topic)

    async def _look(self, topic_id: TopicId) -> bool:
        path = self._path(topic_id)
        try:
            # A server of an ensemble that lags behind would tell of the time before the fence.
            await self._store.sync(path)
            data, _ = await self._store.get(path)
        except NoNodeError:
            return False
        return self._stands(data)
