"""The configuration of one broker: Kafka's property names, checked at start (KafkaConfig)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.config.catalog import (
    all_definitions,
    broker_synonyms,
    default_texts,
    definition_behind,
)
from ottla.config.checks import check_start
from ottla.config.definitions import (
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigType,
    Synonym,
    UpdateMode,
    describe_broker_synonyms,
    parse_properties,
    to_text,
)
from ottla.config.dynamic import sound_entries
from ottla.config.order import scala_map_order
from ottla.config.values import BrokerValues

logger = logging.getLogger(__name__)


class BrokerConfig(BrokerValues):
    """A broker's values that have passed Kafka's checks, and how DescribeConfigs shows them."""

    __slots__ = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Raises ConfigError with Kafka's text for unknown names, bad values and conflicts."""
        config = cls(properties)
        check_start(config)
        return config

    @classmethod
    def from_file(cls, path: Path, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
        """Reads a server.properties file; `overrides` win over it."""
        raw = path.read_bytes()
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("latin-1")  # what Java's Properties always assumes
        return cls.from_properties({**parse_properties(text), **(overrides or {})})

    def with_dynamic(
        self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """The same file with other entries of the store, which anyone may have written: those
        that do not hold are logged and left out; where the rest does not go together, this config
        stays (DynamicBrokerConfig.updateDefaultConfig)."""
        try:
            return self.proposed(
                sound_entries(dynamic_default, per_broker=False),
                sound_entries(dynamic_broker, per_broker=True),
            )
        except ConfigError as error:
            logger.error("broker configs in the store could not be applied: %s", error)
            return self

    def proposed(
        self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """The same file with other dynamic entries; raises ConfigError where they do not hold."""
        config = BrokerConfig(self.static, dynamic_default, dynamic_broker)
        check_start(config)
        return config

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Entries of DescribeConfigs for this broker (ConfigHelper.createBrokerConfigEntry), in
        Kafka's order."""
        known = {*self.static, *self.dynamic_default, *self.dynamic_broker, *all_definitions()}
        wanted = known if names is None else known.intersection(names)
        return [self._describe(name) for name in scala_map_order(known) if name in wanted]

    def describe_dynamic_defaults(self) -> list[ConfigEntry]:
        """Entries of the cluster-wide default resource (broker name "")."""
        entries = (self._describe(name) for name in scala_map_order(self.dynamic_default))
        level = ConfigSource.DYNAMIC_DEFAULT_BROKER
        return [
            entry._replace(
                value=None if entry.is_sensitive else self.dynamic_default[entry.name],
                source=level,
                synonyms=[synonym for synonym in entry.synonyms if synonym.source is level],
            )
            for entry in entries
        ]

    def synonyms(self, name: str, *, is_sensitive: bool = False) -> list[Synonym]:
        """Where the value of a broker config comes from, the winner first."""
        levels = (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
            (ConfigSource.DEFAULT, default_texts()),
        )
        return describe_broker_synonyms(
            name, broker_synonyms(name), levels, is_sensitive=is_sensitive
        )

    def _describe(self, name: str) -> ConfigEntry:
        exact = all_definitions().get(name)
        definition = exact or definition_behind(name)
        sensitive = definition is None or definition.is_sensitive
        synonyms = self.synonyms(name, is_sensitive=sensitive)
        return ConfigEntry(
            name=name,
            value=None if sensitive else self._shown(name),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            type=definition.type if definition else ConfigType.UNKNOWN,
            is_sensitive=sensitive,
            read_only=exact is None or exact.mode is UpdateMode.READ_ONLY,
            synonyms=synonyms,
            documentation=definition.documentation if definition else "",
        )

    def _shown(self, name: str) -> str | None:
        if name in self._values:
            return to_text(self._values[name])
        # Nothing reads these by this name, so they are not parsed either.
        for level in (self.dynamic_broker, self.dynamic_default, self.static, default_texts()):
            if name in level:
                return level[name]
        return None
