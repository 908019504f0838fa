"""`ottla topics`: kafka-topics' flags and lines, on Ottla and on Apache Kafka."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    credentials_option,
    describe_error,
    flag,
    output_option,
    run_async,
)
from ottla.cli.topics.options import DEFAULT_WAIT_S, TopicOptions, check_usage, option_values
from ottla.config.definitions import java_integer
from ottla.errors import OttlaError


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


@click.command("topics", help="Create, list, describe, alter and delete topics.")
@bootstrap_option
@click.option(
    "--zookeeper", metavar="HOST:PORT/CHROOT",
    help="Write the znodes directly instead of asking a broker.",
)  # fmt: skip
@credentials_option
@command_config_option
@flag("create", "Create a topic.")
@flag("list", "List the topics.")
@flag("list-deleted", "List deleted topics that can be brought back (ottla undelete).")
@flag("describe", "Show partitions and configs of topics.")
@flag("alter", "Add partitions to topics; with --zookeeper also change configs.")
@flag("delete", "Delete topics.")
@click.option(
    "--topic", help="The topic; except with --create a regular expression, or several: a,b."
)
@click.option("--topic-id", help="The id of the topic to describe.")
@click.option("--partitions", metavar="N", callback=_number, help="Number of partitions.")
@click.option(
    "--replication-factor", metavar="N", callback=_number, help="Replicas of each partition."
)
@click.option(
    "--replica-assignment", help="Brokers of each partition: 1:2,2:3 puts partition 0 on 1 and 2."
)
@click.option(
    "--config", multiple=True, help="A topic config, key=val; may be given more than once."
)
@click.option("--delete-config", multiple=True, help="A config to remove, with --zookeeper only.")
@flag("if-exists", "Do nothing where the topic does not exist.")
@flag("if-not-exists", "Do nothing where the topic exists.")
@flag("disable-rack-aware", "Place replicas without looking at racks, with --zookeeper only.")
@flag("yes", "With --delete: do not ask on a terminal.")
@flag("force", "As --yes, for old scripts.")
@flag("wait", "With --delete: return when the topics are gone.")
@flag("folders", "With --wait: also wait until the last folder is off the disks.")
@flag("purge", "With --delete: for good, past the trash. Waits as --wait does.")
@click.option(
    "--wait-timeout", type=click.FloatRange(min=0), default=DEFAULT_WAIT_S, show_default=True,
    metavar="SECONDS", help="How long --wait waits.",
)  # fmt: skip
@flag("exclude-internal", "Leave internal topics out.")
@flag("under-replicated-partitions", "Only partitions with replicas out of sync.")
@flag("unavailable-partitions", "Only partitions without a live leader.")
@flag("under-min-isr-partitions", "Only partitions below min.insync.replicas.")
@flag("at-min-isr-partitions", "Only partitions exactly at min.insync.replicas.")
@flag("topics-with-overrides", "Only topics with configs that are not the default.")
@output_option
def command(**given: Any) -> None:
    options = option_values(given)
    check_usage(options)
    try:
        run_async(_execute(options))
    except OttlaError as error:
        raise TopicCommandFailed(describe_error(error)) from None


async def _execute(options: TopicOptions) -> None:
    if options.zookeeper is None:
        from ottla.cli.topics import brokers

        await brokers.execute(options)
    else:
        from ottla.cli.topics import zookeeper

        await zookeeper.execute(options)
