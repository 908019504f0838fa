"""Kafka's broker configs by name: their definitions, synonyms and defaults, and which are known."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config.definitions import ConfigDef, ConfigError, nearest_name, parse_table, to_text

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")

# DynamicBrokerConfig.brokerConfigSynonyms, the highest precedence first.
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
SYNONYMS = {name: group for group in (_RETENTION, _ROLL, _JITTER) for name in group}
SYNONYMS[_FLUSH[0]] = _FLUSH
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
        return SYNONYMS.get(name, (name,))
    return name, next((config for config in _PER_MECHANISM if base.endswith(config)), base)


def definition_behind(name: str) -> ConfigDef | None:
    """For names that are in no file (KafkaConfig.configType): rates, configs of a listener."""
    from ottla.config.unused import dynamic_only_definitions

    return dynamic_only_definitions().get(name) or all_definitions().get(broker_synonyms(name)[-1])


_texts_of_defaults: dict[str, str] = {}


def default_texts() -> Mapping[str, str]:
    if not _texts_of_defaults:
        texts = {name: to_text(entry.default) for name, entry in all_definitions().items()}
        _texts_of_defaults.update((name, text) for name, text in texts.items() if text is not None)
    return _texts_of_defaults


def name_warnings(given: Mapping[str, str]) -> tuple[str, ...]:
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
