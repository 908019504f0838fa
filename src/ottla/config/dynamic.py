"""What may change in a broker's configuration while it runs (DynamicBrokerConfig)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from ottla.config.catalog import all_definitions, base_name, broker_synonyms
from ottla.config.definitions import ConfigDef, ConfigError, ConfigType, UpdateMode
from ottla.config.unused import dynamic_only_definitions
from ottla.config.values import BrokerValues

logger = logging.getLogger(__name__)

# SslConfigs.RECONFIGURABLE_CONFIGS: may be changed at run time with a listener prefix only.
_PER_LISTENER = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type", "keystore.location", "keystore.password", "key.password",
        "keystore.key", "keystore.certificate.chain", "truststore.type", "truststore.location",
        "truststore.password", "truststore.certificates",
    )
)  # fmt: skip
# DynamicBrokerConfig.ClusterLevelListenerConfigs: may have a listener prefix at any level.
_ANY_LEVEL = ("max.connections", "max.connection.creation.rate")
# DynamicThreadPool.ReconfigurableConfigs.
_THREAD_COUNTS = (
    "num.io.threads", "num.network.threads", "num.replica.fetchers",
    "num.recovery.threads.per.data.dir", "background.threads",
)  # fmt: skip
_CLEANER_THREADS = "log.cleaner.threads"
# What a broker here reads once, at its start, though Kafka takes it over at any time. All else that
# concerns listeners has no meaning here and is stored and shown, as in Kafka.
_READ_AT_START = frozenset(
    (
        "listeners", "advertised.listeners", "listener.security.protocol.map",
        "sasl.mechanism.inter.broker.protocol", "sasl.enabled.mechanisms",
    )
)  # fmt: skip
_READ_AT_START_PER_LISTENER = frozenset(("sasl.enabled.mechanisms", "sasl.jaas.config"))


def check_dynamic(changes: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises ConfigError with Kafka's text where these configs may not be set at run time, for
    one broker (`per_broker`) or as the cluster's default. Names Kafka does not know pass."""
    _refuse(_read_only(changes), "Cannot update these configs dynamically: Set")
    _refuse(
        _without_prefix(changes),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix: HashSet",
    )
    for name, text in changes.items():
        _check_value(name, text)
    if not per_broker:
        _refuse(
            _per_broker(changes),
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set",
        )


def sound_entries(stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """Those that hold, for entries out of a znode (DynamicBrokerConfig.fromPersistentProps)."""
    left_out = {name for name, text in stored.items() if not _is_sound(name, text)}
    left_out.update(_read_only(stored), _without_prefix(stored))
    # Kafka encodes them with password.encoder.secret; here they cannot be read.
    left_out.update(name for name in stored if is_password(name))
    if not per_broker:
        left_out.update(_per_broker(stored))
    if left_out:
        logger.error(
            "broker configs in the store that do not hold are ignored: %s",
            ", ".join(sorted(left_out)),
        )
    return {name: text for name, text in stored.items() if name not in left_out}


def is_password(name: str) -> bool:
    """DynamicBrokerConfig.isPasswordConfig: kept in the store in an encoded form."""
    return any(
        name.endswith(definition.name)
        for definition in all_definitions().values()
        if definition.type is ConfigType.PASSWORD and definition.mode is not UpdateMode.READ_ONLY
    )


def check_change(current: BrokerValues, proposed: BrokerValues) -> None:
    """Raises ConfigError where the running broker cannot go from one to the other; for thread
    counts with Kafka's rule and text, though nothing here has such threads."""
    for name in _THREAD_COUNTS:
        old, new = current.integer(name), proposed.integer(name)
        if new != old:
            _check_step(old, new, _thread_reasons(name, new, old))
    old, new = current.integer(_CLEANER_THREADS), proposed.integer(_CLEANER_THREADS)
    if new != old:
        _check_step(old, new, _cleaner_reasons(old))
    for name in needs_restart(current, proposed.dynamic_broker):
        raise ConfigError(
            f"{name} cannot be changed while this broker runs: set it in its properties file and "
            "start the broker again"
        )


def needs_restart(current: BrokerValues, entries: Mapping[str, str]) -> list[str]:
    """Configs that would get another value than the broker runs with, where it cannot take it
    over: listeners and their users. `entries` are those of the one broker."""
    named = dict.fromkeys((*current.dynamic_broker, *entries))
    return [
        name
        for name in named
        if _is_read_at_start(name)
        and {**current.static, **entries}.get(name)
        != {**current.static, **current.dynamic_broker}.get(name)
    ]


def without_restart(
    current: BrokerValues, entries: Mapping[str, str], waiting: Iterable[str]
) -> dict[str, str]:
    """A broker's entries with the `waiting` ones as the broker runs with them."""
    kept = {name: text for name, text in entries.items() if name not in set(waiting)}
    running = current.dynamic_broker
    return kept | {name: running[name] for name in waiting if name in running}


def _is_read_at_start(name: str) -> bool:
    if base_name(name) == name:
        return name in _READ_AT_START
    return broker_synonyms(name)[-1] in _READ_AT_START_PER_LISTENER


def _check_step(old: int, new: int, reasons: tuple[str, str, str]) -> None:
    reason = None
    if new <= 0:
        reason = reasons[0]
    elif new < old // 2:
        reason = reasons[1]
    elif new > old * 2:
        reason = reasons[2]
    if reason is not None:
        # A ConfigException within another one, as Java prints it.
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} "
            "for configuration Invalid dynamic configuration"
        )


def _thread_reasons(name: str, new: int, old: int) -> tuple[str, str, str]:
    failed = f"Dynamic thread count update validation failed for {name}={new}, value should"
    return (
        f"{failed} be at least 1",
        f"{failed} be at least half the current value {old}",
        f"{failed} not be greater than double the current value {old}",
    )


def _cleaner_reasons(old: int) -> tuple[str, str, str]:
    return (
        "Log cleaner threads should be at least 1",
        f"Log cleaner threads cannot be reduced to less than half the current value {old}",
        f"Log cleaner threads cannot be increased to more than double the current value {old}",
    )


def _definition(name: str) -> ConfigDef | None:
    return all_definitions().get(name) or dynamic_only_definitions().get(name)


def _check_value(name: str, text: str) -> None:
    definition = _definition(base_name(name))
    is_dynamic = definition is not None and (
        definition.mode is not UpdateMode.READ_ONLY or definition.name in dynamic_only_definitions()
    )
    if definition is not None and is_dynamic:
        definition.parse(text)


def _is_sound(name: str, text: str) -> bool:
    try:
        _check_value(name, text)
    except ConfigError:
        return False
    return True


def _read_only(names: Iterable[str]) -> Iterator[str]:
    definitions = all_definitions()
    for name in names:
        if name in definitions and definitions[name].mode is UpdateMode.READ_ONLY:
            yield name


def _without_prefix(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name in _PER_LISTENER)


def _per_broker(names: Iterable[str]) -> Iterator[str]:
    definitions = all_definitions()
    for name in names:
        base, definition = base_name(name), definitions.get(name)
        for_listener = base != name and base not in _ANY_LEVEL
        if for_listener or (definition and definition.mode is UpdateMode.PER_BROKER):
            yield name


def _refuse(names: Iterable[str], message: str) -> None:
    shown = ", ".join(names)
    if shown:
        raise ConfigError(f"{message}({shown})")
