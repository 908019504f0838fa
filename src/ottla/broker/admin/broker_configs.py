"""Alters the configs of brokers while they run (ZkAdminManager.alterBrokerConfigs).

Only the broker itself is asked to alter its configs, any broker the cluster-wide defaults. Both
are znodes under /config/brokers; a change notification makes the brokers read them again
(`live_config.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.admin.configs import (
    Change,
    apply_changes,
    check_changes,
    check_entries,
    invalid_request,
    raise_failure,
    read_config,
    store_with_note,
)
from ottla.config.catalog import broker_definitions
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
from ottla.config.resources import ResourceType
from ottla.metadata.znodes import DEFAULT_ENTITY, ConfigZnode

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.config.definitions import ConfigDef
    from ottla.metadata.store import MetadataStore


class Certificates(Protocol):
    """Of listeners that are encrypted: `BrokerTls`."""

    def check_change(self, proposed: BrokerConfig) -> None:
        """Raises ConfigError where certificates of changed configs cannot be taken over."""

    def reload_files(self) -> None:
        """Takes over files that were written since they were read."""


class BrokerConfigs:
    """The configs of one broker, by its id, and the defaults of all of them, by ""."""

    def __init__(
        self,
        store: MetadataStore,
        config: BrokerConfig,
        broker_id: int,
        tls: Certificates | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._broker_id = broker_id
        self._tls = tls

    async def replace(
        self, name: str, entries: Sequence[tuple[str, str | None]], *, validate_only: bool
    ) -> None:
        """AlterConfigs for a broker (its id) or all of them (""): what is not named is gone."""
        given = check_entries(entries)
        entity = self._entity(name)
        stored = await self._read(entity)
        await self._alter(name, stored, given, validate_only=validate_only)

    async def change(self, name: str, changes: Sequence[Change], *, validate_only: bool) -> None:
        """IncrementalAlterConfigs for a broker (its id) or all of them ("")."""
        check_changes(changes)
        entity = self._entity(name)
        stored = await self._read(entity)
        sound = sound_entries(stored, per_broker=entity != DEFAULT_ENTITY)
        # Kafka's encoded passwords cannot be read here, but neither are they thrown away.
        kept = sound | {key: text for key, text in stored.items() if is_password(key)}
        changed = apply_changes(kept, changes, _list_definition)
        await self._alter(name, stored, changed, validate_only=validate_only)

    def _entity(self, name: str) -> str:
        if name == "":
            return DEFAULT_ENTITY
        try:
            broker_id = int(name)
        except ValueError:
            raise invalid_request(f"Broker id must be an integer, but it is: {name}") from None
        if broker_id != self._broker_id:
            raise invalid_request(
                f"Unexpected broker id, expected {self._broker_id}, but received {name}"
            )
        return str(broker_id)

    async def _read(self, entity: str) -> dict[str, str]:
        return await read_config(self._store, ConfigZnode.BROKERS, entity)

    async def _alter(
        self,
        name: str,
        stored: Mapping[str, str],
        entries: Mapping[str, str],
        *,
        validate_only: bool,
    ) -> None:
        """Writes `entries` in the place of those `stored`, where they hold."""
        entity = self._entity(name)
        try:
            proposed = _check(
                self._config,
                stored,
                entries,
                per_broker=entity != DEFAULT_ENTITY,
                validate_only=validate_only,
            )
            if self._tls is not None:
                _check_certificates(self._tls, proposed)
        except ConfigError as error:
            # `require` of Scala puts its own words before the reason.
            prefix = "requirement failed: " if isinstance(error, RequirementFailed) else ""
            kind = ResourceType.BROKER.name
            raise invalid_request(
                f"Invalid config value for resource ConfigResource(type={kind}, name='{name}'): "
                f"{prefix}{error}"
            ) from None
        if not validate_only:
            if self._tls is not None and entity != DEFAULT_ENTITY:
                # DynamicBrokerConfig.reloadUpdatedFilesWithoutConfigChange
                self._tls.reload_files()
            raise_failure(await store_with_note(self._store, ConfigZnode.BROKERS, entity, entries))


def _list_definition(name: str) -> ConfigDef:
    definition = broker_definitions().get(name)
    if definition is None:
        raise invalid_request(f"{name} is not a list of this broker's configs")
    return definition


def _check(
    config: BrokerConfig,
    stored: Mapping[str, str],
    entries: Mapping[str, str],
    *,
    per_broker: bool,
    validate_only: bool,
) -> BrokerConfig:
    """What the configs will be; raises ConfigError where they do not hold."""
    # Passwords and listeners that were in the store before were not put there by this request.
    kept_passwords = {key for key in entries if is_password(key) and _is_same(key, stored, entries)}
    given = {key: text for key, text in entries.items() if key not in kept_passwords}
    check_dynamic(given, per_broker=per_broker)
    if per_broker:
        waiting = [k for k in needs_restart(config, given) if _is_same(k, stored, given)]
        proposed = config.proposed(config.dynamic_default, without_restart(config, given, waiting))
    else:
        proposed = config.proposed(given, config.dynamic_broker)
    passwords = [key for key in given if is_password(key)]
    _refuse_passwords(config, passwords, validate_only=validate_only)
    check_change(config, proposed)
    return proposed


def _check_certificates(tls: Certificates, proposed: BrokerConfig) -> None:
    try:
        tls.check_change(proposed)
    except ConfigError as error:
        # A ConfigException within another one, as Java prints it.
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {error} "
            "for configuration Invalid dynamic configuration"
        ) from None


def _is_same(name: str, stored: Mapping[str, str], entries: Mapping[str, str]) -> bool:
    return stored.get(name) == entries.get(name)


def _refuse_passwords(config: BrokerConfig, names: Sequence[str], *, validate_only: bool) -> None:
    if names and config.optional_text("password.encoder.secret") is None:
        # Kafka notices when it encodes them, which is after the validation.
        if not validate_only:
            raise ConfigError("Password encoder secret not configured")
    elif names:
        raise ConfigError(
            f"this broker keeps no passwords in the store: set {names[0]} in its properties file"
        )
