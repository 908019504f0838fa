"""Alters the configs of topics (ZkAdminManager.alterConfigs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.admin.automatic_topics import is_legal
from ottla.broker.admin.configs import (
    Change,
    apply_changes,
    check_changes,
    check_entries,
    invalid_request,
    raise_failure,
    read_topic_config,
    store_with_note,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import znodes
from ottla.metadata.store import ANY_VERSION, Check, NoNodeError
from ottla.topics.configs import topic_definitions, validate_topic_configs

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.config.definitions import ConfigDef
    from ottla.metadata.store import MetadataStore


class TopicConfigs:
    """The configs of all topics, as any broker may alter them."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache) -> None:
        self._store = store
        self._cache = metadata_cache

    async def replace(
        self, topic: str, entries: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None:
        """AlterConfigs: what is not named goes back to its default."""
        await self._alter(topic, check_entries(entries), validate_only=validate_only)

    async def change(self, topic: str, changes: Sequence[Change], *, validate_only: bool) -> None:
        """IncrementalAlterConfigs (KIP-339): only what is named changes."""
        check_changes(changes)
        configs = await read_topic_config(self._store, topic) if is_legal(topic) else {}
        changed = apply_changes(configs, changes, topic_definition)
        await self._alter(topic, changed, validate_only=validate_only)

    async def _alter(self, topic: str, configs: Mapping[str, str], *, validate_only: bool) -> None:
        if not self._cache.contains_topic(topic):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
            )
        try:
            validate_topic_configs(configs)
        except KafkaError as error:
            if error.message is None or not error.message.startswith("Invalid value "):
                raise
            # Kafka tells a bad value (ConfigException) from an unknown name here, unlike at
            # creation.
            raise invalid_request(
                "Invalid config value for resource "
                f"ConfigResource(type=TOPIC, name='{topic}'): {error.message}"
            ) from None
        if validate_only:
            return
        # The metadata cache may not know yet that the topic is gone, and nobody would remove a
        # config that is written after its topic's end: the topic has to be there at the same
        # moment.
        is_there = Check(znodes.TopicZnode.path(topic), ANY_VERSION)
        results = await store_with_note(
            self._store, znodes.ConfigZnode.TOPICS, topic, configs, condition=is_there
        )
        if isinstance(results[0].error, NoNodeError):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist."
            )
        raise_failure(results)


def topic_definition(name: str) -> ConfigDef:
    definition = topic_definitions().get(name)
    if definition is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    return definition
