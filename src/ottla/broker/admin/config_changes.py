"""Takes over configs of topics, brokers and clients while the broker runs (ConfigHandler).

Whoever changes a config leaves a note under /config/changes that names it; `ChangeNotes` follows
them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.broker.admin.configs import read_config, read_topic_config
from ottla.metadata.change_notes import ChangeNotes
from ottla.metadata.znodes import ConfigChangeZnode, ConfigZnode

if TYPE_CHECKING:
    from ottla.broker.admin.live_config import LiveConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Clock

logger = logging.getLogger(__name__)

OnTopicConfig = Callable[[str, dict[str, str]], None]
# Gets the path of a user's, a client's or an address's config: `users/u/clients/c`.
OnQuota = Callable[[str], Awaitable[None]]
_QUOTA_ENTITIES = ("users", "clients", "ips")


class ConfigChanges:
    """Reads what each note names and hands it on."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        on_topic_config: OnTopicConfig,
        live_config: LiveConfig,
        on_quota: OnQuota,
    ) -> None:
        self._store = store
        self._on_topic_config = on_topic_config
        self._live_config = live_config
        self._on_quota = on_quota
        self._notes = ChangeNotes(
            store, clock, ConfigChangeZnode.parent(), ConfigChangeZnode.PREFIX, self._take
        )

    async def start(self) -> None:
        """Takes what is there, then goes on in the background."""
        await self._notes.start()

    async def stop(self) -> None:
        await self._notes.stop()

    def on_new_session(self) -> None:
        self._notes.on_new_session()

    async def _take(self, data: bytes | None) -> None:
        entity_path = ConfigChangeZnode.decode(data).entity_path
        entity_type, _, entity = entity_path.partition("/")
        if entity_type in _QUOTA_ENTITIES:
            await self._on_quota(entity_path)
        elif entity_type == ConfigZnode.BROKERS and self._live_config.concerns(entity):
            entries = await read_config(self._store, ConfigZnode.BROKERS, entity)
            self._live_config.take(entity, entries)
        elif entity_type == ConfigZnode.TOPICS:
            configs = await read_topic_config(self._store, entity)
            logger.info("configs of topic %s are now %s", entity, configs)
            self._on_topic_config(entity, configs)
