"""Logs of deleted topics on this broker: into the trash, back, or gone for good (ADR 50).

What is to happen stands in the topic's entry in `/ottla/ended`. The broker watches the entries of
the logs it keeps: one that only says that the topic ended makes it remove them. An entry that is
missing makes it do nothing: the topic came back, and the controller's order brings the logs back
by their topic's id; or the entry was lost, and nothing is removed for a lost entry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.store import NoNodeError, StoreError, Watcher, WatchEvent
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore

logger = logging.getLogger(__name__)
T = TypeVar("T")

_READS_IN_FLIGHT = 1_000
# Shorter than a controller waits for an answer.
_ORDER_ATTEMPTS = 20
_ORDER_PAUSE_S = 0.5
# Later there is a new session, and with it a new look.
_ATTEMPTS = 60
_PAUSE_S = 1.0


class TrashedLogs:
    """`strike_off` takes this broker off a topic's entry, once it has no log of it any more."""

    def __init__(
        self,
        store: MetadataStore,
        replicas: ReplicaManager,
        strike_off: Callable[[TopicId], Awaitable[None]],
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._strike_off = strike_off
        self._watchers: dict[TopicId, Watcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def to_keep(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those that are to be deleted and whose topics are kept. Raises StoreError."""
        logs = self._replicas.log_manager
        ids = {tp: log.topic_id for tp in partitions if (log := logs.get(tp)) is not None}
        entries: dict[TopicId, EndedTopic | None] = {}
        listed = sorted(set(ids.values()) - {ZERO_TOPIC_ID})
        if listed:
            # A server of the store that lags would not have them yet, and the logs would be gone.
            await self._patiently(self._store.sync)
        for start in range(0, len(listed), _READS_IN_FLIGHT):
            some = listed[start : start + _READS_IN_FLIGHT]
            read = await asyncio.gather(
                *(self._patiently(partial(self._entry, topic_id)) for topic_id in some)
            )
            entries.update(zip(some, read, strict=True))
        return {
            tp
            for tp, topic_id in ids.items()
            if (entry := entries.get(topic_id)) is not None and entry.kept is not None
        }

    async def keep(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Puts logs into the trash; returns those that are not there."""
        missing = {tp for tp in sorted(partitions) if not await self._replicas.keep(tp)}
        if partitions:
            self.look_soon()
        return missing

    # --- the end ----------------------------------------------------------------------------

    def look_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._look_persistently())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_persistently(self) -> None:
        for _ in range(_ATTEMPTS):
            try:
                await self.look()
                return
            except StoreError as error:
                logger.warning("the trash could not be looked at, trying again: %r", error)
                await asyncio.sleep(_PAUSE_S)

    async def look(self) -> None:
        """Removes what is to go, and watches the rest. Raises StoreError."""
        log_manager = self._replicas.log_manager
        for topic_id in sorted(log_manager.trash.topic_ids()):
            entry = await self._entry(topic_id, watched=True)
            if entry is None or entry.kept is not None:
                continue
            logger.info("topic %s was purged: its logs are deleted", entry.topic)
            delay_ms = log_manager.config.integer("log.segment.delete.delay.ms")
            is_gone = await log_manager.trash_moves.purge(topic_id, delay_ms)
            if is_gone and not log_manager.dirs.offline():
                await self._strike_off(topic_id)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Raises StoreError where the store is away for longer than a moment."""
        for _ in range(_ORDER_ATTEMPTS - 1):
            try:
                return await ask()
            except StoreError:
                await asyncio.sleep(_ORDER_PAUSE_S)
        return await ask()

    async def _entry(self, topic_id: TopicId, *, watched: bool = False) -> EndedTopic | None:
        watcher = self._watcher(topic_id) if watched else None
        try:
            data, _ = await self._store.get(EndedTopicZnode.path(topic_id), watcher)
        except NoNodeError:
            self._watchers.pop(topic_id, None)
            return None
        return EndedTopicZnode.decode(data)

    def _watcher(self, topic_id: TopicId) -> Watcher:
        """The one that is armed, if there is one: a second would fire as well."""

        def fire(_: WatchEvent) -> None:
            self._watchers.pop(topic_id, None)
            self.look_soon()

        return self._watchers.setdefault(topic_id, fire)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
