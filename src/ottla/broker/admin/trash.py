"""What is in the trash, by the store's word (ADR 50)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.store import NoNodeError, StoreError
from ottla.metadata.znodes import TopicZnode
from ottla.types import TopicId

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Clock

# A topic of this state can be brought back.
KEPT = "kept"
# It goes: some brokers have files of it still, or were away when it went.
GOING = "going"
# It is on its way back.
RETURNING = "returning"

_READS_IN_FLIGHT = 500
_ATTEMPTS = 30
_PAUSE_S = 0.5
_UNKNOWN_MS = 7 * 86_400_000

logger = logging.getLogger(__name__)


class DeletedTopic(NamedTuple):
    topic_id: TopicId
    entry: EndedTopic
    state: str


async def deleted_topics(store: MetadataStore) -> list[DeletedTopic]:
    """Those in the trash, and those of which some broker may still have files; by name, the one
    that was deleted last first. A topic that is still being deleted is none of them."""
    try:
        names = await store.children(EndedTopicZnode.parent())
    except NoNodeError:
        return []
    ids = [found for found in map(EndedTopicZnode.topic_id, names) if found is not None]
    found: list[DeletedTopic] = []
    for start in range(0, len(ids), _READS_IN_FLIGHT):
        some = ids[start : start + _READS_IN_FLIGHT]
        read = await asyncio.gather(*(_deleted_topic(store, topic_id) for topic_id in some))
        found += [topic for topic in read if topic is not None]
    return sorted(found, key=lambda t: (t.entry.topic, -(t.entry.kept or _NEVER).deleted_ms))


class _Never(NamedTuple):
    deleted_ms: int = 0


_NEVER = _Never()


def kept_until(store: MetadataStore, clock: Clock) -> Callable[[TopicId], Awaitable[int | None]]:
    """Asks until when a topic that ended is kept; None: not at all. Where nobody can say, what may
    be wanted again is kept for a while."""

    async def ask(topic_id: TopicId) -> int | None:
        path = EndedTopicZnode.path(topic_id)
        for attempt in range(_ATTEMPTS):
            try:
                # The entry is older than the word of the controller, but a server of an ensemble
                # that lags behind would not have it.
                await store.sync(path)
                data = await _data(store, path)
                break
            except StoreError as error:
                if attempt == _ATTEMPTS - 1:
                    logger.warning("the trash could not be asked: %r", error)
                    return clock.now_ms() + _UNKNOWN_MS
                await asyncio.sleep(_PAUSE_S)
        entry = EndedTopicZnode.decode(data)
        return None if entry is None or entry.kept is None else entry.kept.until_ms

    return ask


async def _deleted_topic(store: MetadataStore, topic_id: TopicId) -> DeletedTopic | None:
    entry = EndedTopicZnode.decode(await _data(store, EndedTopicZnode.path(topic_id)))
    if entry is None:
        return None
    # Read after the entry, which is written before the znode goes.
    data = await _data(store, TopicZnode.path(entry.topic))
    if data is not None and TopicZnode.decode(data).topic_id == topic_id:
        return None
    if entry.kept is None:
        return DeletedTopic(topic_id, entry, GOING) if entry.brokers else None
    state = KEPT if entry.kept.undelete_as is None else RETURNING
    return DeletedTopic(topic_id, entry, state)


async def _data(store: MetadataStore, path: str) -> bytes | None:
    try:
        return (await store.get(path))[0]
    except NoNodeError:
        return None
