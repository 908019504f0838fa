"""Broker configs that change while the broker runs: how they are altered (ZkAdminManager
.alterBrokerConfigs) and how a running broker takes them over (DynamicBrokerConfig).

Only the broker itself is asked to alter its configs, any broker the cluster-wide defaults. Both
are znodes under /config/brokers; a change notification makes the brokers read them again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.admin.configs import (
    Change,
    ResourceType,
    apply_changes,
    check_changes,
    check_entries,
    invalid_request,
    raise_failure,
    read_config,
    store_with_note,
)
from ottla.config.broker import broker_definitions
from ottla.config.checks import RequirementFailed
from ottla.config.definitions import ConfigError
from ottla.config.dynamic import (
    check_change,
    check_dynamic,
    is_password,
    needs_restart,
    sound_entries,
    without_restart,
)
from ottla.metadata.znodes import DEFAULT_ENTITY, ConfigZnode

if TYPE_CHECKING:
    from ottla.broker.context.services import BrokerServices
    from ottla.config.broker import BrokerConfig
    from ottla.config.definitions import ConfigDef
    from ottla.metadata.store import MetadataStore

log = logging.getLogger(__name__)

# Gets the config before and after a change.
OnChange = Callable[["BrokerConfig", "BrokerConfig"], None]


class LiveConfig:
    """The config of a running broker. `on_change` hands a new one to whoever needs it."""

    def __init__(self, config: BrokerConfig, broker_id: int, on_change: OnChange) -> None:
        self.current = config
        self._broker_id = broker_id
        self._on_change = on_change

    def concerns(self, entity: str) -> bool:
        """Whether /config/brokers/<entity> matters here."""
        return entity in (DEFAULT_ENTITY, str(self._broker_id))

    def take(self, entity: str, entries: Mapping[str, str]) -> None:
        """Takes over what the store has now, for all brokers or for this one."""
        old = self.current
        per_broker = entity != DEFAULT_ENTITY
        sound = sound_entries(entries, per_broker=per_broker)
        if per_broker:
            # A tool that writes znodes itself may have set what only a start takes over.
            waiting = needs_restart(old, sound)
            for name in waiting:
                log.warning("%s is taken over when the broker is started again", name)
            new = old.with_dynamic(old.dynamic_default, without_restart(old, sound, waiting))
        else:
            new = old.with_dynamic(sound, old.dynamic_broker)
        if new.dynamic_default == old.dynamic_default and new.dynamic_broker == old.dynamic_broker:
            return
        log.info("configs of %s are now %s", entity, _shown(entries))
        self.current = new
        self._on_change(old, new)


def _shown(entries: Mapping[str, str]) -> dict[str, str]:
    return {name: "[hidden]" if is_password(name) else text for name, text in entries.items()}


async def replace_broker_config(
    services: BrokerServices,
    name: str,
    entries: Sequence[tuple[str, str | None]],
    *,
    validate_only: bool,
) -> None:
    """AlterConfigs for a broker (its id) or all of them (""): what is not named is gone."""
    given = check_entries(entries)
    entity = _entity(services, name)
    stored = await read_broker_config(services.store, entity)
    await _alter(services, name, entity, stored, given, validate_only=validate_only)


async def change_broker_config(
    services: BrokerServices, name: str, changes: Sequence[Change], *, validate_only: bool
) -> None:
    """IncrementalAlterConfigs for a broker (its id) or all of them ("")."""
    check_changes(changes)
    entity = _entity(services, name)
    stored = await read_broker_config(services.store, entity)
    sound = sound_entries(stored, per_broker=entity != DEFAULT_ENTITY)
    # Kafka's encoded passwords cannot be read here, but neither are they thrown away.
    kept = sound | {key: text for key, text in stored.items() if is_password(key)}
    changed = apply_changes(kept, changes, _list_definition)
    await _alter(services, name, entity, stored, changed, validate_only=validate_only)


async def read_broker_config(store: MetadataStore, entity: str) -> dict[str, str]:
    return await read_config(store, ConfigZnode.BROKERS, entity)


def _entity(services: BrokerServices, name: str) -> str:
    if name == "":
        return DEFAULT_ENTITY
    try:
        broker_id = int(name)
    except ValueError:
        raise invalid_request(f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != services.broker_id:
        raise invalid_request(
            f"Unexpected broker id, expected {services.broker_id}, but received {name}"
        )
    return str(broker_id)


def _list_definition(name: str) -> ConfigDef:
    definition = broker_definitions().get(name)
    if definition is None:
        raise invalid_request(f"{name} is not a list of this broker's configs")
    return definition


async def _alter(
    services: BrokerServices,
    name: str,
    entity: str,
    stored: Mapping[str, str],
    entries: Mapping[str, str],
    *,
    validate_only: bool,
) -> None:
    """Writes `entries` in the place of those `stored`, where they hold."""
    try:
        _check(services.config, stored, entries, per_broker=entity != DEFAULT_ENTITY)
    except ConfigError as error:
        # `require` of Scala puts its own words before the reason.
        prefix = "requirement failed: " if isinstance(error, RequirementFailed) else ""
        raise invalid_request(
            f"Invalid config value for resource ConfigResource(type={ResourceType.BROKER.name}, "
            f"name='{name}'): {prefix}{error}"
        ) from None
    if validate_only:
        return
    raise_failure(await store_with_note(services.store, ConfigZnode.BROKERS, entity, entries))


def _check(
    config: BrokerConfig,
    stored: Mapping[str, str],
    entries: Mapping[str, str],
    *,
    per_broker: bool,
) -> None:
    # Passwords and listeners that were in the store before were not put there by this request.
    kept_passwords = {key for key in entries if is_password(key) and _is_same(key, stored, entries)}
    given = {key: text for key, text in entries.items() if key not in kept_passwords}
    check_dynamic(given, per_broker=per_broker)
    if per_broker:
        waiting = [k for k in needs_restart(config, given) if _is_same(k, stored, given)]
        proposed = config.proposed(config.dynamic_default, without_restart(config, given, waiting))
    else:
        proposed = config.proposed(given, config.dynamic_broker)
    _refuse_passwords(config, [key for key in given if is_password(key)])
    check_change(config, proposed)


def _is_same(name: str, stored: Mapping[str, str], entries: Mapping[str, str]) -> bool:
    return stored.get(name) == entries.get(name)


def _refuse_passwords(config: BrokerConfig, names: Sequence[str]) -> None:
    if names and config.optional_text("password.encoder.secret") is None:
        raise ConfigError("Password encoder secret not configured")
    if names:
        raise ConfigError(
            f"this broker keeps no passwords in the store: set {names[0]} in its properties file"
        )
