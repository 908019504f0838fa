"""Finds out what nobody could tell this broker, when a controller first speaks to it.

Topics end and partitions move while a broker is down or without a session, and a controller may die
before it has told everybody. Its successor does not know of topics that are gone; a controller that
took this broker for dead does not tell it later. Both show in the store. Once a controller speaks
to this life of the broker, whatever it left to the dead broker is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from ottla.metadata.store import StoreError

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.replication.stale_logs import StaleLogs

logger = logging.getLogger(__name__)

# A controller first names only the brokers, then everything.
_FIRST_UPDATES = 3
# Later there is a new session, and with it a new look.
_ATTEMPTS = 60
_PAUSE_S = 1.0


class CatchUp:
    """A listener of the metadata cache; `spawn` runs work in the background."""

    def __init__(
        self,
        stale_logs: StaleLogs,
        metadata_cache: MetadataCache,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._stale_logs = stale_logs
        self._metadata_cache = metadata_cache
        self._spawn = spawn
        self._told_under = metadata_cache.told_under
        self._updates_to_look_at = 0

    def metadata_came(self, topics: frozenset[str]) -> None:
        told_under = self._metadata_cache.told_under
        if told_under != self._told_under:
            self._told_under = told_under
            self._updates_to_look_at = _FIRST_UPDATES
            self._spawn(_persistently(self._stale_logs.forget_ended_topics))
        if self._updates_to_look_at:
            self._updates_to_look_at -= 1
            suspects = self._stale_logs.suspects(all_told=bool(topics))
            if suspects:
                self._spawn(_persistently(lambda: self._stale_logs.settle_suspects(suspects)))


async def settle_when_named(stale_logs: StaleLogs, topics: Collection[str]) -> None:
    """Looks again at logs of topics that had no id yet, once they have one."""
    for _ in range(_ATTEMPTS):
        if not topics:
            return
        await asyncio.sleep(_PAUSE_S)
        try:
            topics = await stale_logs.settle(topics)
        except StoreError as error:
            logger.warning("the ids of new topics could not be read, trying again: %r", error)


async def _persistently(look: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_ATTEMPTS):
        try:
            await look()
            return
        except StoreError as error:
            logger.warning("what changed meanwhile could not be read, trying again: %r", error)
            await asyncio.sleep(_PAUSE_S)
