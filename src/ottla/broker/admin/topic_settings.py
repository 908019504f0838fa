"""The resolved configs of topics, at hand where a log is created or loaded.

Kafka reads a topic's config znode whenever it creates a log; here the znodes of all topics are
read at start and those of new topics before their first LeaderAndIsr is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.admin.configs import read_topic_config
from ottla.metadata import znodes
from ottla.metadata.store import NoNodeError, StoreError
from ottla.topics.configs import LogConfig, sound_overrides

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore

logger = logging.getLogger(__name__)

_ATTEMPTS = 60
_PAUSE_S = 0.5


class TopicSettings:
    """Topic configs over the broker's defaults; topics without overrides share one object."""

    def __init__(self, config: BrokerConfig, store: MetadataStore) -> None:
        self._config = config
        self._store = store
        self._defaults = LogConfig.resolve(config)
        self._by_topic: dict[str, LogConfig] = {}
        # What holds of a topic's own configs, for topics that have any.
        self._overrides: dict[str, dict[str, str]] = {}
        self._being_read: set[str] = set()

    def knows(self, topic: str) -> bool:
        """Whether a change matters here. A topic that is not known may be over; its configs are
        read when its first log is made."""
        return topic in self._by_topic or topic in self._being_read

    def of(self, topic: str) -> LogConfig:
        return self._by_topic.get(topic, self._defaults)

    async def load_all(self) -> None:
        """Reads the configs of every topic there is."""
        try:
            topics = await self._store.children(znodes.ConfigZnode.path(znodes.ConfigZnode.TOPICS))
        except NoNodeError:
            return
        await self.load(topics)

    async def load(
        self, topics: Collection[str], again: Collection[str] = (), *, is_fresh: bool = False
    ) -> None:
        """Reads the configs of those topics that are not known yet, and of those in `again`; with
        `is_fresh` as they are now, also where a server of the store lags.

        A store that is away for a moment is waited for: a log with the wrong settings would be
        worse than a log that comes later.
        """
        for topic in again:
            self._by_topic.pop(topic, None)
        unknown = [topic for topic in topics if topic not in self._by_topic]
        self._being_read.update(unknown)
        try:
            await self._read(unknown, is_fresh=is_fresh)
        finally:
            self._being_read.difference_update(unknown)

    async def _read(self, unknown: list[str], *, is_fresh: bool) -> None:
        for _ in range(_ATTEMPTS):
            try:
                if is_fresh:
                    await self._store.sync()
                found = await asyncio.gather(*(read_topic_config(self._store, t) for t in unknown))
            except StoreError as error:
                logger.warning("topic configs cannot be read, trying again: %r", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            for topic, overrides in zip(unknown, found, strict=True):
                if topic not in self._by_topic:  # a change that came meanwhile is newer
                    self.set(topic, overrides)
            return
        logger.error("going on without the configs of %d topics", len(unknown))

    def set(self, topic: str, overrides: dict[str, str]) -> LogConfig:
        """Takes over a topic's own configs; what does not hold is logged and left out."""
        sound = sound_overrides(overrides)
        if len(sound) < len(overrides):
            ignored = sorted(overrides.keys() - sound.keys())
            logger.error("topic %s has configs that do not hold: %s", topic, ", ".join(ignored))
        if sound:
            self._overrides[topic] = sound
        else:
            self._overrides.pop(topic, None)
        self._by_topic[topic] = resolved = self._resolve(topic)
        return resolved

    def _resolve(self, topic: str) -> LogConfig:
        overrides = self._overrides.get(topic)
        return LogConfig.resolve(self._config, overrides) if overrides else self._defaults

    def reconfigure(self, config: BrokerConfig) -> None:
        """Other defaults of the broker, under the topics' own configs (DynamicLogConfig)."""
        self._config = config
        self._defaults = LogConfig.resolve(config)
        self._by_topic = {topic: self._resolve(topic) for topic in self._by_topic}

    def forget_deleted(self, cache: MetadataCache) -> None:
        """Follows the cache: a topic made anew under an old name is read again."""

        def forget(named: frozenset[str]) -> None:
            for topic in named:
                if not cache.contains_topic(topic):
                    self._by_topic.pop(topic, None)
                    self._overrides.pop(topic, None)

        cache.add_listener(forget)
