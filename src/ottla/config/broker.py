"""The configuration of one broker: Kafka's property names, checked at start (KafkaConfig)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from ottla.config.definitions import (
    ConfigDef,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    Synonym,
    UpdateMode,
    describe_broker_synonyms,
    nearest_name,
    parse_properties,
    parse_table,
    to_text,
)
from ottla.errors import InvariantViolated
from ottla.types import Endpoint

log = logging.getLogger(__name__)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")

# DynamicBrokerConfig.brokerConfigSynonyms, the highest precedence first.
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_SYNONYMS = {name: group for group in (_RETENTION, _ROLL, _JITTER) for name in group}
_SYNONYMS[_FLUSH[0]] = _FLUSH
# DynamicBrokerConfig.ListenerMechanismConfigs: may have a mechanism before them too.
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

_definitions: dict[str, ConfigDef] | None = None
_all_definitions: dict[str, ConfigDef] | None = None


def broker_definitions() -> Mapping[str, ConfigDef]:
    """All broker configs by name; parsed from the table on first use."""
    global _definitions
    if _definitions is None:
        from ottla.config.table import BROKER_CONFIGS

        _definitions = parse_table(BROKER_CONFIGS)
    return _definitions


def all_definitions() -> Mapping[str, ConfigDef]:
    """Also those of Kafka's configs that nothing here reads: for descriptions and checks."""
    global _all_definitions
    if _all_definitions is None:
        from ottla.config.unused import unused_definitions

        _all_definitions = {**broker_definitions(), **unused_definitions()}
    return _all_definitions


def base_name(name: str) -> str:
    """The config behind a `listener.name.<listener>.` prefix."""
    match = _LISTENER_PREFIX.fullmatch(name)
    return match[1] if match else name


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The configs that can give a config its value, itself included."""
    base = base_name(name)
    if base == name:
        return _SYNONYMS.get(name, (name,))
    return name, next((config for config in _PER_MECHANISM if base.endswith(config)), base)


class BrokerConfig:
    """Immutable. Values come from the file, over them the store's cluster-wide defaults, over
    them the store's entries for this broker."""

    __slots__ = ("_values", "dynamic_broker", "dynamic_default", "static", "warnings")

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        self.static = dict(static)
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.warnings: tuple[str, ...] = _name_warnings(self.static)
        given = {**self.static, **self.dynamic_default, **self.dynamic_broker}
        self._values: dict[str, ConfigValue] = {}
        for name, definition in broker_definitions().items():
            text = given.get(name)
            self._values[name] = definition.default if text is None else definition.parse(text)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Raises ConfigError with Kafka's text for unknown names, bad values and conflicts."""
        from ottla.config.checks import check_start

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
        from ottla.config.dynamic import sound_entries

        try:
            return self.proposed(
                sound_entries(dynamic_default, per_broker=False),
                sound_entries(dynamic_broker, per_broker=True),
            )
        except ConfigError as error:
            log.error("broker configs in the store could not be applied: %s", error)
            return self

    def proposed(
        self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """The same file with other dynamic entries; raises ConfigError where they do not hold."""
        from ottla.config.checks import check_start

        config = BrokerConfig(self.static, dynamic_default, dynamic_broker)
        check_start(config)
        return config

    def value(self, name: str) -> ConfigValue:
        """The typed value, None where it is null; unit variants are resolved (see `integer`)."""
        try:
            value = self._values[name]
        except KeyError:
            raise InvariantViolated(f"{name} is not a broker config") from None
        if name == "log.retention.ms" and value is not None:
            return max(cast("int", value), -1)  # any negative number is no limit
        return self._fallback(name) if value is None else value

    def integer(self, name: str) -> int:
        """An int, short or long. `log.retention.ms` and the like fall back to their variants."""
        value = self.value(name)
        if not isinstance(value, int):
            raise InvariantViolated(f"{name} is not an integer: {value!r}")
        return value

    def number(self, name: str) -> float:
        value = self.value(name)
        if not isinstance(value, int | float):
            raise InvariantViolated(f"{name} is not a number: {value!r}")
        return float(value)

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise InvariantViolated(f"{name} is not a boolean: {value!r}")
        return value

    def text(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise InvariantViolated(f"{name} is not a string: {value!r}")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.value(name) is None else self.text(name)

    def items(self, name: str) -> list[str]:
        value = self.value(name)
        if not isinstance(value, tuple):
            raise InvariantViolated(f"{name} is not a list: {value!r}")
        return list(value)

    def _fallback(self, name: str) -> ConfigValue:
        values = self._values
        if name == "log.retention.ms":
            minutes, hours = values["log.retention.minutes"], values["log.retention.hours"]
            if minutes is not None:
                return _scaled_or_unlimited(cast("int", minutes), _MINUTE_MS)
            return _scaled_or_unlimited(cast("int", hours), _HOUR_MS)
        if name in ("log.roll.ms", "log.roll.jitter.ms"):
            return cast("int", values[_SYNONYMS[name][1]]) * _HOUR_MS
        if name == "log.flush.interval.ms":
            return values["log.flush.scheduler.interval.ms"]
        if name == "zookeeper.connection.timeout.ms":
            return values["zookeeper.session.timeout.ms"]
        if name == "num.replica.alter.log.dirs.threads":
            return len(self.log_dirs)
        return None

    @property
    def broker_id(self) -> int:
        return self.integer("broker.id")

    @property
    def rack(self) -> str | None:
        return self.optional_text("broker.rack")

    @property
    def zookeeper_connect(self) -> str:
        return self.text("zookeeper.connect")

    @property
    def log_dirs(self) -> list[Path]:
        given = self.optional_text("log.dirs") or self.text("log.dir")
        return [Path(item) for item in comma_separated(given)]

    @property
    def listeners(self) -> list[Endpoint]:
        """Where to bind. An empty host means every interface."""
        given = self.optional_text("listeners")
        return self._endpoints("PLAINTEXT://:9092" if given is None else given)

    @property
    def advertised_listeners(self) -> list[Endpoint]:
        """What to register. A listener on every interface is advertised by the machine's name."""
        return [
            endpoint if endpoint.host else endpoint._replace(host=_machine_name())
            for endpoint in self.advertised_as_given
        ]

    @property
    def advertised_as_given(self) -> list[Endpoint]:
        """The advertised listeners before empty hosts are filled in."""
        given = self.optional_text("advertised.listeners")
        return self.listeners if given is None else self._endpoints(given, advertised=True)

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener that brokers use among themselves."""
        name = self.optional_text("inter.broker.listener.name")
        return (name or self.text("security.inter.broker.protocol")).upper()

    @property
    def security_protocol_map(self) -> dict[str, str]:
        protocols: dict[str, str] = {}
        for item in comma_separated(self.text("listener.security.protocol.map")):
            name, colon, protocol = item.rpartition(":")
            protocol = protocol.strip().upper()
            if not colon:
                raise ConfigError(
                    "Error parsing configuration property 'listener.security.protocol.map': "
                    f"{item} is not NAME:PROTOCOL"
                )
            if protocol not in SECURITY_PROTOCOLS:
                raise ConfigError(
                    f"Invalid security protocol `{protocol}` defined in "
                    "listener.security.protocol.map"
                )
            protocols[name.strip().upper()] = protocol
        return protocols

    def _endpoints(self, given: str, *, advertised: bool = False) -> list[Endpoint]:
        protocols = self.security_protocol_map
        try:
            endpoints = [_endpoint(item, protocols) for item in comma_separated(given)]
        except ConfigError as error:
            raise ConfigError(f"Error creating broker listeners from '{given}': {error}") from None
        if len({endpoint.listener for endpoint in endpoints}) < len(endpoints):
            raise ConfigError(f"Each listener must have a different name, listeners: {given}")
        ports = [endpoint.port for endpoint in endpoints if endpoint.port]
        if len(set(ports)) < len(ports) and not advertised:
            raise ConfigError(f"Each listener must have a different port, listeners: {given}")
        return endpoints

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Entries of DescribeConfigs for this broker (ConfigHelper.createBrokerConfigEntry), in
        Kafka's order."""
        from ottla.config.order import scala_map_order

        known = {*self.static, *self.dynamic_default, *self.dynamic_broker, *all_definitions()}
        wanted = known if names is None else known.intersection(names)
        return [self._describe(name) for name in scala_map_order(known) if name in wanted]

    def describe_dynamic_defaults(self) -> list[ConfigEntry]:
        """Entries of the cluster-wide default resource (broker name "")."""
        from ottla.config.order import scala_map_order

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
            (ConfigSource.DEFAULT, _default_texts()),
        )
        return describe_broker_synonyms(
            name, broker_synonyms(name), levels, is_sensitive=is_sensitive
        )

    def _describe(self, name: str) -> ConfigEntry:
        exact = all_definitions().get(name)
        definition = exact or _definition_behind(name)
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
        for level in (self.dynamic_broker, self.dynamic_default, self.static, _default_texts()):
            if name in level:
                return level[name]
        return None


def _definition_behind(name: str) -> ConfigDef | None:
    """For names that are in no file (KafkaConfig.configType): rates, configs of a listener."""
    from ottla.config.unused import dynamic_only_definitions

    return dynamic_only_definitions().get(name) or all_definitions().get(broker_synonyms(name)[-1])


_texts_of_defaults: dict[str, str] = {}


def _default_texts() -> Mapping[str, str]:
    if not _texts_of_defaults:
        texts = {name: to_text(entry.default) for name, entry in all_definitions().items()}
        _texts_of_defaults.update((name, text) for name, text in texts.items() if text is not None)
    return _texts_of_defaults


def _scaled_or_unlimited(amount: int, unit_ms: int) -> int:
    return -1 if amount < 0 else amount * unit_ms


def comma_separated(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]


def _machine_name() -> str:
    import socket  # asked for only where no listener names a host

    return socket.getfqdn()


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if not match or int(match[3]) > 65535:
        raise ConfigError(f"Unable to parse {text} to a broker endpoint")
    listener = match[1].upper()
    if listener not in protocols:
        raise ConfigError(f"No security protocol defined for listener {listener}")
    return Endpoint(listener, match[2], int(match[3]), protocols[listener])


def _name_warnings(given: Mapping[str, str]) -> tuple[str, ...]:
    """Refuses unknown names; the result tells of those that are accepted and not used."""
    from ottla.config.table import JAAS_SUFFIX, READ_BY_AUTHORIZER, REPLACED, WITHOUT_MEANING

    known = broker_definitions()
    warnings: list[str] = []
    for name in given:
        if base_name(name) != name or name in known:
            continue
        if name in READ_BY_AUTHORIZER or name.endswith(JAAS_SUFFIX):
            continue
        if any(
            name.startswith(pattern) if pattern.endswith(".") else name == pattern
            for pattern in WITHOUT_MEANING
        ):
            warnings.append(f"{name} has no meaning here and is ignored")
            continue
        suggestion = REPLACED.get(name) or nearest_name(name, known)
        hint = f", did you mean {suggestion}?" if suggestion else ""
        raise ConfigError(f"Unknown configuration {name}{hint}")
    return tuple(warnings)
