"""`ottla topics`: kafka-topics' flags and lines, on Ottla and on Apache Kafka."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import click

from ottla.cli.options import run_async
from ottla.cli.topic_options import (
    TopicCommandError,
    TopicOptions,
    check_numbers,
    check_usage,
    option_values,
    parse_assignment,
    parse_configs,
    select_topics,
)
from ottla.configdef import java_integer
from ottla.errors import ErrorCode, KafkaError, OttlaError


class TopicCommandFailed(click.ClickException):
    """Shown as kafka-topics words it, on stderr."""

    def __init__(self, reason: object) -> None:
        super().__init__(f"Error while executing topic command : {reason}")


def _number(_ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A 32-bit number; anything else has the text of Kafka's option parser."""
    if value is None:
        return None
    try:
        return java_integer(value, 31)
    except ValueError:
        option = param.opts[0].lstrip("-")
        reason = f"Cannot parse argument '{value}' of option {option}"
        raise TopicCommandFailed(reason) from None


def _flag(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", is_flag=True, help=text)


@click.command("topics", help="Create, list, describe, alter and delete topics.")
@click.option(
    "--bootstrap-server",
    envvar="OTTLA_BOOTSTRAP_SERVER",
    default="localhost:9092",
    show_default=True,
    help="Brokers to ask first: host:port,host:port.",
)
@_flag("create", "Create a topic.")
@_flag("list", "List the topics.")
@_flag("describe", "Show partitions and configs of topics.")
@_flag("alter", "Add partitions to topics.")
@_flag("delete", "Delete topics.")
@click.option("--topic", help="The topic; a regular expression except with --create.")
@click.option("--partitions", metavar="N", callback=_number, help="Number of partitions.")
@click.option(
    "--replication-factor", metavar="N", callback=_number, help="Replicas of each partition."
)
@click.option(
    "--replica-assignment", help="Brokers of each partition: 1:2,2:3 puts partition 0 on 1 and 2."
)
@click.option("--config", multiple=True, help="A topic config, key=val; may be given often.")
@_flag("if-exists", "Do nothing where the topic does not exist.")
@_flag("if-not-exists", "Do nothing where the topic exists.")
@_flag("exclude-internal", "Leave internal topics out.")
@_flag("under-replicated-partitions", "Only partitions with replicas out of sync.")
@_flag("unavailable-partitions", "Only partitions without a live leader.")
@_flag("under-min-isr-partitions", "Only partitions below min.insync.replicas.")
@_flag("at-min-isr-partitions", "Only partitions exactly at min.insync.replicas.")
@_flag("topics-with-overrides", "Only topics with configs that are not the default.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**given: Any) -> None:
    options = option_values(given)
    check_usage(options)
    try:
        run_async(_execute(options))
    except OttlaError as error:
        raise TopicCommandFailed(error) from None


async def _execute(options: TopicOptions) -> None:
    from ottla.client.admin import Admin
    from ottla.runtime import system_runtime

    actions: dict[str, Callable[[Admin, TopicOptions], Awaitable[None]]] = {
        "create": _create,
        "list": _list,
        "describe": _describe,
        "alter": _alter,
        "delete": _delete,
    }
    async with Admin.connect(system_runtime(), options.bootstrap_server) as admin:
        await actions[options.action](admin, options)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


async def _create(admin: Any, options: TopicOptions) -> None:
    from ottla.cli.topic_output import COLLISION_WARNING
    from ottla.client.admin import NewTopic, raise_first_error
    from ottla.topics.names import has_collision_chars

    name = options.topic or ""
    assignment = parse_assignment(options.replica_assignment) if options.replica_assignment else {}
    topic = NewTopic(
        name,
        partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if options.replication_factor is None else options.replication_factor,
        assignments=assignment,
        configs=parse_configs(options.config),
    )
    if has_collision_chars(name):
        click.echo(COLLISION_WARNING, err=options.output == "json")
    check_numbers(options)
    try:
        raise_first_error(await admin.create_topics([topic]))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not options.if_not_exists:
            raise
        created = False
    else:
        created = True
    if options.output == "json":
        _print_json({"topic": name, "created": created})
    elif created:
        click.echo(f"Created topic {name}.")


async def _matching(admin: Any, options: TopicOptions) -> list[str]:
    listings = await admin.list_topics(include_internal=not options.exclude_internal)
    found = select_topics([listing.name for listing in listings], options.topic)
    may_be_missing = options.action == "list" or options.if_exists
    if options.topic is not None and not found and not may_be_missing:
        raise TopicCommandError(f"Topic '{options.topic}' does not exist as expected")
    return found


async def _list(admin: Any, options: TopicOptions) -> None:
    found = await _matching(admin, options)
    if options.output == "json":
        _print_json(found)
    else:
        click.echo("\n".join(found))


async def _describe(admin: Any, options: TopicOptions) -> None:
    from ottla.cli import topic_output

    found = await _matching(admin, options)
    shown = await _gather(admin, found)
    if options.output == "json":
        _print_json(topic_output.json_value(shown, options))
        return
    for line in topic_output.text_lines(shown, options):
        sys.stdout.write(line + "\n")


async def _gather(admin: Any, found: list[str]) -> Any:
    from ottla.cli.topic_output import Described
    from ottla.client.admin import ConfigResource, raise_first_error

    if not found:
        return Described([], {}, frozenset(), {})
    configs = raise_first_error(
        await admin.describe_configs([ConfigResource.topic(name) for name in found])
    )
    cluster = await admin.describe_cluster()
    topics = raise_first_error(await admin.describe_topics(found))
    try:
        moves = await admin.list_reassignments()
    except KafkaError as error:
        # As kafka-topics: an old broker or a missing right only hides the moves.
        hidden = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if error.code not in hidden:
            raise
        moves = {}
    return Described(
        [topics[name] for name in sorted(topics)],
        {resource.name: items for resource, items in configs.items()},
        frozenset(node.id for node in cluster.nodes),
        moves,
    )


async def _alter(admin: Any, options: TopicOptions) -> None:
    from ottla.client.admin import NewPartitions, raise_first_error

    given = parse_assignment(options.replica_assignment) if options.replica_assignment else None
    found = await _matching(admin, options)
    total = options.partitions or 0
    wanted = {}
    if found:
        present = raise_first_error(await admin.describe_topics(found))
        for name in found:
            count = len(present[name].partitions)
            # The list covers all partitions; those that exist already are passed over.
            added = None if given is None else [given[p] for p in sorted(given) if p >= count]
            wanted[name] = NewPartitions(total, added)
        raise_first_error(await admin.create_partitions(wanted))
    if options.output == "json":
        _print_json({"altered": found})


async def _delete(admin: Any, options: TopicOptions) -> None:
    from ottla.client.admin import raise_first_error

    found = await _matching(admin, options)
    if found:
        raise_first_error(await admin.delete_topics(found))
    if options.output == "json":
        _print_json({"deleted": found})
