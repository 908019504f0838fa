"""Takes over topic configs while the broker runs (ZkNodeChangeNotificationListener).

Whoever changes a config leaves a sequential note under /config/changes. Notes are taken in their
order; those older than a quarter of an hour are removed. After a new session all notes are taken
again: some may have come while nobody watched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.broker.config_admin import read_topic_config
from ottla.metadata import znodes
from ottla.metadata.store import NoNodeError, StoreError, WatchEvent

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Clock

log = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS = 15 * 60 * 1000
_RETRY_S = 1.0

OnTopicConfig = Callable[[str, dict[str, str]], Awaitable[None] | None]
# Gets the path of a user's or a client's config: `users/u/clients/c`.
OnQuota = Callable[[str], Awaitable[None]]
_QUOTA_ENTITIES = ("users", "clients")


class ConfigChanges:
    """Watches the notes and hands each changed topic's configs to `on_topic_config`."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        on_topic_config: OnTopicConfig,
        on_quota: OnQuota | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_topic_config = on_topic_config
        self._on_quota = on_quota
        self._last_sequence = -1
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes what is there, then goes on in the background."""
        await self._take_notes()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def on_new_session(self) -> None:
        self._last_sequence = -1
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._take_notes()
            except StoreError as error:
                log.warning("config changes could not be read, trying again: %s", error)
                self._wake.set()
                await asyncio.sleep(_RETRY_S)

    def _notice(self, _event: WatchEvent) -> None:
        self._wake.set()

    async def _take_notes(self) -> None:
        parent = znodes.ConfigChangeZnode.parent()
        present = sorted(
            (sequence, name)
            for name in await self._store.children(parent, self._notice)
            if (sequence := _sequence(name)) is not None
        )
        for sequence, name in present:
            if sequence > self._last_sequence:
                await self._take(name)
                self._last_sequence = sequence
        await self._remove_old([name for _, name in present])

    async def _take(self, name: str) -> None:
        try:
            data, _ = await self._store.get(znodes.ConfigChangeZnode.path(name))
            change = znodes.ConfigChangeZnode.decode(data)
        except NoNodeError:
            return
        except znodes.BadZnodeError as error:
            log.warning("ignored: %s", error)
            return
        entity_type, _, entity = change.entity_path.partition("/")
        if entity_type in _QUOTA_ENTITIES and self._on_quota is not None:
            await self._on_quota(change.entity_path)
        if entity_type != znodes.ConfigZnode.TOPICS:
            return
        configs = await read_topic_config(self._store, entity)
        log.info("configs of topic %s are now %s", entity, configs)
        taken = self._on_topic_config(entity, configs)
        if taken is not None:
            await taken

    async def _remove_old(self, names: list[str]) -> None:
        for name in names:
            path = znodes.ConfigChangeZnode.path(name)
            stat = await self._store.exists(path)
            if stat is None:
                continue
            if self._clock.now_ms() - stat.ctime <= CHANGE_EXPIRATION_MS:
                return  # later ones are younger
            try:
                await self._store.delete(path)
            except NoNodeError:
                pass  # another broker was faster


def _sequence(name: str) -> int | None:
    digits = name.removeprefix(znodes.ConfigChangeZnode.PREFIX)
    return int(digits) if digits != name and digits.isdecimal() else None
