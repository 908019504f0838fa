"""What `ottla configs` was asked for, checked as kafka-configs does (ConfigCommandOptions)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import click

from ottla.config.definitions import java_integer

TOPICS = "topics"
CLIENTS = "clients"
USERS = "users"
BROKERS = "brokers"
IPS = "ips"
ENTITY_TYPES = (TOPICS, CLIENTS, USERS, BROKERS, IPS)
# These have quotas; the first two also together.
OF_QUOTAS = (CLIENTS, USERS, IPS)
# Commas and equal signs inside square brackets belong to the value.
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """The flags of kafka-configs, with None, false or nothing where one was not given."""

    bootstrap_server: str | None = None
    zookeeper: str | None = None
    zk_credentials: Path | None = None
    command_config: Path | None = None
    output: str = "text"
    alter: bool = False
    describe: bool = False
    all: bool = False
    entity_type: Sequence[str] = ()
    # In the order of the command line; "" is the default, of --entity-default.
    entity_name: Sequence[str] = ()
    topic: str | None = None
    client: str | None = None
    user: str | None = None
    broker: str | None = None
    ip: str | None = None
    client_defaults: bool = False
    user_defaults: bool = False
    broker_defaults: bool = False
    ip_defaults: bool = False
    add_config: str | None = None
    add_config_file: Path | None = None
    delete_config: Sequence[str] = ()
    force: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """Whose configs; the empty name is the cluster's default, None stands for all."""

    type: str
    name: str | None

    @property
    def singular(self) -> str:
        return self.type[:-1]


def check_usage(options: ConfigOptions) -> list[Entity]:
    """ConfigCommandOptions.checkArgs, in its order; raises click.UsageError with Kafka's texts.
    One entity, or two of users and clients."""
    if options.alter == options.describe:
        raise click.UsageError("Command must include exactly one action: --describe, --alter")
    if options.zookeeper is not None and options.bootstrap_server is not None:
        raise click.UsageError("Only one of --bootstrap-server or --zookeeper must be specified")
    for name, value in (
        ("add-config", options.add_config),
        ("delete-config", options.delete_config),
    ):
        if options.describe and value:
            raise click.UsageError(f'Option "[describe]" can\'t be used with option "[{name}]"')
    types, names = _entity_types(options), _entity_names(options)
    if len(names) > len(types) or (options.alter and 0 < len(names) < len(types)):
        raise click.UsageError("An entity name must be specified for every entity type")
    padded = [*names, *[None] * (len(types) - len(names))]
    entities = [Entity(type_, name) for type_, name in zip(types, padded, strict=True)]
    first = entities[0]
    if first.type == BROKERS and first.name:
        _check_broker_id(first.name)
    if first.type == IPS and first.name and not _is_address(first.name):
        raise click.UsageError(
            f"The entity name for {IPS} must be a valid IP or resolvable host, but it is: "
            f"{first.name}"
        )
    if options.alter:
        _check_alter(options, first)
    return entities


def _shortcuts(options: ConfigOptions) -> list[tuple[str, str]]:
    """The entities named by a flag of their own, as (type, name)."""
    given = (
        (TOPICS, options.topic),
        (CLIENTS, options.client),
        (USERS, options.user),
        (BROKERS, options.broker),
        (IPS, options.ip),
        (CLIENTS, "" if options.client_defaults else None),
        (USERS, "" if options.user_defaults else None),
        (BROKERS, "" if options.broker_defaults else None),
        (IPS, "" if options.ip_defaults else None),
    )
    return [(type_, name) for type_, name in given if name is not None]


def _entity_types(options: ConfigOptions) -> list[str]:
    shortcuts = _shortcuts(options)
    types = [*options.entity_type, *(type_ for type_, _ in shortcuts)]
    repeated = [type_ for i, type_ in enumerate(types) if type_ in types[:i]]
    if repeated:
        raise click.UsageError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    for type_ in types:
        if type_ not in ENTITY_TYPES:
            raise click.UsageError(
                f"Invalid entity type {type_}, the entity type must be one of "
                f"{','.join(ENTITY_TYPES)} with the --bootstrap-server argument"
            )
    if not types:
        raise click.UsageError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {CLIENTS, USERS}:
        raise click.UsageError("Only 'users' and 'clients' entity types may be specified together")
    if shortcuts and (options.entity_type or options.entity_name):
        raise click.UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )
    return types


def _entity_names(options: ConfigOptions) -> list[str]:
    return [*options.entity_name, *(name for _, name in _shortcuts(options))]


def _check_broker_id(name: str) -> None:
    try:
        java_integer(name, 31)
    except ValueError:
        raise click.UsageError(
            f"The entity name for {BROKERS} must be a valid integer broker id, but it is: {name}"
        ) from None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost"
    return True


def _check_alter(options: ConfigOptions, entity: Entity) -> None:
    if entity.type != TOPICS:
        if entity.name is None:
            raise click.UsageError(
                "an entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not entity.name:
        raise click.UsageError(f"an entity name must be specified with --alter of {entity.type}")
    if options.add_config is not None and options.add_config_file is not None:
        raise click.UsageError("Only one of --add-config or --add-config-file must be specified")
    if options.add_config is None and options.add_config_file is None and not options.delete_config:
        raise click.UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )


def parse_added(given: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2],k3=`: brackets hold values with commas, a value may be empty."""
    pairs = [
        re.split(rf"\s*={_OUTSIDE_BRACKETS}\s*", item)
        for item in _without_trailing_empty(re.split(f",{_OUTSIDE_BRACKETS}", given))
    ]
    if any(len(pair) != 2 for pair in pairs):
        raise click.UsageError(
            "requirement failed: Invalid entity config: all configs to be added must be in the "
            'format "key=val".'
        )
    return {name.strip(): re.sub(r"[\[\]]", "", value).strip() for name, value in pairs}


def _without_trailing_empty(items: list[str]) -> list[str]:
    """Java's String.split leaves them out, unless nothing else is there."""
    while len(items) > 1 and not items[-1]:
        items = items[:-1]
    return items


def parse_deleted(given: Sequence[str]) -> list[str]:
    return [name.strip() for item in given for name in item.split(",")]


def option_values(given: Mapping[str, object]) -> ConfigOptions:
    return ConfigOptions(**given)  # type: ignore[arg-type]  # click's options carry these types
