"""The actions of `ottla topics --zookeeper` (TopicCommand.ZookeeperTopicService): znodes are read
and written directly, no broker needs to run."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import click

from ottla.cli.options import print_json, store_runtime
from ottla.cli.topics import output
from ottla.cli.topics.brokers import wait_until_gone
from ottla.cli.topics.options import (
    TopicCommandError,
    TopicOptions,
    announce,
    confirm_deletion,
    parse_assignment,
    parse_configs,
    select_topics,
)
from ottla.client.admin.types import ConfigItem, PartitionDescription, TopicDescription
from ottla.client.admin.zookeeper import StoredTopic, ZooKeeperAdmin
from ottla.config.definitions import ConfigSource, ConfigType
from ottla.errors import ErrorCode, KafkaError
from ottla.topics.assignment import RackAwareMode
from ottla.topics.configs import validate_topic_config_names, validate_topic_configs
from ottla.topics.names import is_internal
from ottla.types import ZERO_TOPIC_ID


async def execute(options: TopicOptions) -> None:
    actions: dict[str, Callable[[ZooKeeperAdmin, TopicOptions], Awaitable[None]]] = {
        "create": _create,
        "list": _list,
        "describe": _describe,
        "alter": _alter,
        "delete": _delete,
    }
    async with await ZooKeeperAdmin.connect(
        store_runtime(), options.zookeeper or "", options.zk_credentials
    ) as admin:
        await actions[options.action](admin, options)


async def _create(admin: ZooKeeperAdmin, options: TopicOptions) -> None:
    name = options.topic or ""
    assignment = parse_assignment(options.replica_assignment) if options.replica_assignment else {}
    configs = parse_configs(options.config)
    validate_topic_configs(configs)
    announce(options, name, configs)
    created = True
    try:
        if assignment:
            await admin.create_topic_with_assignment(name, assignment, configs)
        else:
            mode = RackAwareMode.DISABLED if options.disable_rack_aware else RackAwareMode.ENFORCED
            await admin.create_topic(
                name,
                options.partitions or 0,
                options.replication_factor or 0,
                configs,
                rack_aware=mode,
            )
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
            raise
        created = False
    if options.output == "json":
        print_json({"topic": name, "created": created})
    elif created:
        click.echo(f"Created topic {name}.")


async def _matching(admin: ZooKeeperAdmin, options: TopicOptions) -> list[str]:
    names = await admin.topic_names()
    if options.exclude_internal:
        names = [name for name in names if not is_internal(name)]
    return select_topics(names, options)


async def _list(admin: ZooKeeperAdmin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    marked = await admin.topics_marked_for_deletion()
    if options.output == "json":
        print_json([{"topic": name, "marked_for_deletion": name in marked} for name in found])
        return
    for name in found:
        click.echo(f"{name} - marked for deletion" if name in marked else name)


async def _describe(admin: ZooKeeperAdmin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    stored = await admin.describe(found)
    shown = output.Described(
        [_description(topic) for topic in stored],
        {topic.name: _config_items(topic) for topic in stored},
        frozenset(broker.id for broker in await admin.brokers()),
        {},
        frozenset(topic.name for topic in stored if topic.is_marked_for_deletion),
    )
    if options.output == "json":
        print_json(output.json_value(shown, options))
        return
    for line in output.text_lines(shown, options):
        sys.stdout.write(line + "\n")
    for name in sorted(set(found) - {topic.name for topic in stored}):
        click.echo(f"Topic {name} doesn't exist!")


def _description(topic: StoredTopic) -> TopicDescription:
    return TopicDescription(
        topic.name,
        topic.topic_id or ZERO_TOPIC_ID,
        is_internal(topic.name),
        [
            PartitionDescription(
                stored.partition,
                -1 if stored.leader is None else stored.leader,
                -1,
                list(stored.replicas),
                list(stored.isr),
                [],
            )
            for stored in topic.partitions
        ],
    )


def _config_items(topic: StoredTopic) -> list[ConfigItem]:
    return [
        ConfigItem(name, value, ConfigSource.TOPIC, ConfigType.UNKNOWN, False, False)
        for name, value in topic.configs.items()
    ]


async def _alter(admin: ZooKeeperAdmin, options: TopicOptions) -> None:
    names = await admin.topic_names()
    assignment = (
        parse_assignment(options.replica_assignment) if options.replica_assignment else None
    )
    added = parse_configs(options.config)
    validate_topic_configs(added)
    removed = [name.strip() for name in options.delete_config]
    validate_topic_config_names(removed)
    announce(options, "", added)
    found = select_topics(names, options)
    to_stderr = options.output == "json"
    for name in found:
        if options.config or options.delete_config:
            click.echo(_CONFIG_WARNING, err=to_stderr)
            await admin.alter_configs(name, added, removed)
            click.echo(f"Updated config for topic {name}.", err=to_stderr)
        if options.partitions is not None:
            if is_internal(name):
                raise TopicCommandError(
                    f"The number of partitions for the internal topic {name} cannot be changed."
                )
            click.echo(_KEY_WARNING, err=to_stderr)
            await admin.add_partitions(name, options.partitions, assignment)
            click.echo("Adding partitions succeeded!", err=to_stderr)
    if options.output == "json":
        print_json({"altered": found})


_CONFIG_WARNING = """\
WARNING: Altering topic configuration from this script has been deprecated and may be removed in \
future releases.
         Going forward, please use kafka-configs.sh for this functionality"""
_KEY_WARNING = (
    "WARNING: If partitions are increased for a topic that has a key, the partition logic or "
    "ordering of the messages will be affected"
)


async def _delete(admin: ZooKeeperAdmin, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    confirm_deletion(options, found)
    to_stderr = options.output == "json"
    for name in found:
        if await admin.mark_for_deletion(name):
            click.echo(f"Topic {name} is marked for deletion.", err=to_stderr)
            click.echo(
                "Note: This will have no impact if delete.topic.enable is not set to true.",
                err=to_stderr,
            )
        else:
            click.echo(f"Topic {name} is already marked for deletion.", err=to_stderr)
    if options.wait and found:

        async def still_there(left: set[str]) -> set[str]:
            return {name for name in left if await admin.exists(name)}

        await wait_until_gone(found, still_there, options)
    if options.output == "json":
        print_json({"deleted" if options.wait else "marked_for_deletion": found})
