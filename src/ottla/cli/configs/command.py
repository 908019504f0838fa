"""`ottla configs`: kafka-configs' flags and lines for topics, brokers and the cluster's default,
for the quotas of users, clients and addresses, and for the SCRAM credentials of users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.configs.options import (
    BROKERS,
    OF_QUOTAS,
    TOPICS,
    ConfigOptions,
    Entity,
    check_usage,
    option_values,
    parse_added,
    parse_deleted,
)
from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    credentials_option,
    describe_error,
    flag,
    output_option,
    print_json,
    run_async,
)
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.types import ConfigItem, ConfigResource


class ConfigCommandFailed(click.ClickException):
    """What kafka-configs prints above a stack trace; the reason stands here instead."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"Error while executing config command : {reason}")


@click.command(
    "configs", help="Show and change configs of topics and brokers, quotas and passwords."
)
@bootstrap_option
@click.option(
    "--zookeeper", metavar="HOST:PORT/CHROOT",
    help="Write SCRAM credentials of users to the store, before brokers run.",
)  # fmt: skip
@credentials_option
@command_config_option
@flag("alter", "Change configs.")
@flag("describe", "Show configs.")
@flag("all", "With --describe: all configs, not only those that were set.")
@click.option(
    "--entity-type", multiple=True, metavar="topics|brokers|users|clients|ips",
    help="Whose configs; users and clients may come together.",
)  # fmt: skip
@click.option(
    "--entity-name",
    multiple=True,
    help="The name of a topic, user or client, a broker's id, an address.",
)
@click.option(
    "--entity-default", "entity_name", multiple=True, is_flag=True, flag_value="",
    help="The default for all brokers, users, clients or addresses.",
)  # fmt: skip
@click.option("--topic", help="Short for --entity-type topics --entity-name TEXT.")
@click.option("--broker", help="Short for --entity-type brokers --entity-name TEXT.")
@flag("broker-defaults", "Short for --entity-type brokers --entity-default.")
@click.option("--user", help="Short for --entity-type users --entity-name TEXT.")
@flag("user-defaults", "Short for --entity-type users --entity-default.")
@click.option("--client", help="Short for --entity-type clients --entity-name TEXT.")
@flag("client-defaults", "Short for --entity-type clients --entity-default.")
@click.option("--ip", help="Short for --entity-type ips --entity-name TEXT.")
@flag("ip-defaults", "Short for --entity-type ips --entity-default.")
@click.option("--add-config", help="Configs to set: k1=v1,k2=[v1,v2],k3=v3.")
@click.option(
    "--add-config-file", type=click.Path(path_type=Path), help="A property file of configs to set."
)
@click.option("--delete-config", multiple=True, help="Configs to remove: k1,k2.")
@flag("force", "Has no effect; kept for old scripts.")
@output_option
def command(**given: Any) -> None:
    options = option_values(given)
    entities = check_usage(options)
    try:
        run_async(_execute(options, entities))
    except OttlaError as error:
        raise ConfigCommandFailed(describe_error(error)) from None


async def _execute(options: ConfigOptions, entities: Sequence[Entity]) -> None:
    from ottla.cli.configs import quotas

    added = _added(options)
    as_json = options.output == "json"
    if options.zookeeper is not None:
        from ottla.cli.configs import zookeeper

        await zookeeper.execute(options, entities, added, parse_deleted(options.delete_config))
        return
    async with connect_admin(options.bootstrap_server, options.command_config) as admin:
        if entities[0].type not in OF_QUOTAS:
            if options.alter:
                await _alter(admin, options, entities[0], added)
            else:
                await _describe(admin, options, entities[0])
        elif options.alter:
            removed = parse_deleted(options.delete_config)
            await quotas.alter(admin, entities, added, removed, as_json=as_json)
        else:
            await quotas.describe(admin, entities, as_json=as_json)


def _added(options: ConfigOptions) -> dict[str, str]:
    from ottla.cli.topics.options import format_version_warning

    added: dict[str, str] = {}
    if options.add_config_file is not None:
        from ottla.config.definitions import parse_properties

        added = parse_properties(options.add_config_file.read_text(encoding="latin-1"))
    if options.add_config is not None:
        added |= parse_added(options.add_config)
    warning = format_version_warning(added)
    if warning is not None:
        click.echo(warning, err=options.output == "json")
    return added


def _resource(entity_type: str, name: str) -> ConfigResource:
    from ottla.client.admin.types import ConfigResource
    from ottla.topics.names import validate

    if entity_type == TOPICS:
        if name:
            validate(name)
        return ConfigResource.topic(name)
    return ConfigResource.broker(int(name)) if name else ConfigResource.all_brokers()


def _is_own(entity_type: str, name: str, item: ConfigItem) -> bool:
    """Set on just this entity, and not taken from a more general one."""
    from ottla.config.definitions import ConfigSource

    if entity_type == TOPICS:
        return item.source is ConfigSource.TOPIC
    own = ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return item.source is own


async def _alter(
    admin: Admin, options: ConfigOptions, entity: Entity, added: dict[str, str]
) -> None:
    from ottla.client.admin.types import ConfigEdit, raise_first_error
    from ottla.config.resources import ConfigOperation

    name = entity.name or ""
    resource = _resource(entity.type, name)
    removed = parse_deleted(options.delete_config)
    present = raise_first_error(await admin.describe_configs([resource]))[resource]
    own = {item.name for item in present if _is_own(entity.type, name, item)}
    unknown = [item for item in removed if item not in own]
    if unknown:
        raise click.UsageError(f"Invalid config(s): {','.join(unknown)}")
    edits = [ConfigEdit(key, value) for key, value in added.items()]
    edits += [ConfigEdit(key, "", ConfigOperation.DELETE) for key in removed]
    raise_first_error(await admin.incremental_alter_configs({resource: edits}))
    if options.output == "json":
        print_json(
            {"entity_type": entity.type, "entity_name": name or None, "set": sorted(added),
             "deleted": removed}
        )  # fmt: skip
    elif name:
        click.echo(f"Completed updating config for {entity.singular} {name}.")
    else:
        click.echo(f"Completed updating default config for {entity.type} in the cluster.")


async def _describe(admin: Admin, options: ConfigOptions, entity: Entity) -> None:
    shown = []
    for name in await _entity_names(admin, entity):
        if options.output == "text":
            click.echo(_title(entity, name, options))
        items = await _items(admin, options, entity.type, name)
        if options.output == "text":
            for item in items:
                click.echo(_line(item))
        else:
            shown.append(
                {
                    "entity_type": entity.type,
                    "entity_name": name or None,
                    "configs": [_value(item) for item in items],
                }
            )
    if options.output == "json":
        print_json(shown)


async def _entity_names(admin: Admin, entity: Entity) -> list[str]:
    if entity.name is not None:
        return [entity.name]
    if entity.type == BROKERS:
        return [*(str(node.id) for node in (await admin.describe_cluster()).nodes), ""]
    return [listing.name for listing in await admin.list_topics()]


def _title(entity: Entity, name: str, options: ConfigOptions) -> str:
    if not name:
        return f"Default configs for {entity.type} in the cluster are:"
    return f"{'All' if options.all else 'Dynamic'} configs for {entity.singular} {name} are:"


async def _items(
    admin: Admin, options: ConfigOptions, entity_type: str, name: str
) -> list[ConfigItem]:
    from ottla.cli.java_order import hash_map_order
    from ottla.client.admin.types import raise_first_error

    resource = _resource(entity_type, name)
    described = await admin.describe_configs(
        [resource], include_synonyms=True, include_documentation=options.output == "json"
    )
    by_name = {item.name: item for item in raise_first_error(described)[resource]}
    ordered = [by_name[key] for key in hash_map_order(by_name)]
    return [item for item in ordered if options.all or _is_own(entity_type, name, item)]


# ConfigEntry.ConfigSource, as Java prints it.
_SOURCES = {
    "UNKNOWN": "UNKNOWN",
    "TOPIC": "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER": "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER": "STATIC_BROKER_CONFIG",
    "DEFAULT": "DEFAULT_CONFIG",
    "BROKER_LOGGER": "DYNAMIC_BROKER_LOGGER_CONFIG",
}


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _line(item: ConfigItem) -> str:
    synonyms = ", ".join(
        f"{_SOURCES[synonym.source.name]}:{synonym.name}={_text(synonym.value)}"
        for synonym in item.synonyms
    )
    sensitive = "true" if item.is_sensitive else "false"
    return f"  {item.name}={_text(item.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _value(item: ConfigItem) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": item.name,
        "value": item.value,
        "source": _SOURCES[item.source.name],
        "type": item.type.name,
        "sensitive": item.is_sensitive,
        "read_only": item.read_only,
        "synonyms": [
            {"source": _SOURCES[s.source.name], "name": s.name, "value": s.value}
            for s in item.synonyms
        ],
    }
    if item.documentation:
        value["documentation"] = item.documentation
    return value
