"""What `ottla topics` was asked for, checked as kafka-topics does (TopicCommandOptions)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ottla.cli.include_list import compile_include_list
from ottla.cli.options import interruptible
from ottla.config.definitions import java_integer
from ottla.errors import OttlaError
from ottla.topics.names import has_collision_chars, is_internal

ACTIONS = ("create", "list", "alter", "describe", "delete", "list_deleted")
REPORTS = (
    "under_replicated_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "unavailable_partitions",
)
# Which actions an option goes with, in the order Kafka checks them; others go with all.
_GOES_WITH: dict[str, tuple[str, ...]] = {
    "config": ("create", "alter"),
    "delete_config": ("alter",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    **dict.fromkeys((*REPORTS, "topics_with_overrides"), ("describe",)),
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
    "topic_id": ("describe",),
    "wait": ("delete",),
    "folders": ("delete",),
    "purge": ("delete",),
    "yes": ("delete",),
}
# What only a broker can tell.
_NOT_WITH_ZOOKEEPER = ("under_min_isr_partitions", "at_min_isr_partitions", "topic_id")
MAX_REPLICATION_FACTOR = 2**15 - 1
DEFAULT_WAIT_S = 60.0
_FORMAT_VERSION = "message.format.version"
_COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)


class TopicCommandError(OttlaError):
    """A request that fails before it reaches a broker."""


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The flags of kafka-topics, with None or false where one was not given."""

    bootstrap_server: str | None = None
    zookeeper: str | None = None
    zk_credentials: Path | None = None
    command_config: Path | None = None
    output: str = "text"
    create: bool = False
    list: bool = False
    list_deleted: bool = False
    alter: bool = False
    describe: bool = False
    delete: bool = False
    topic: str | None = None
    topic_id: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    replica_assignment: str | None = None
    config: Sequence[str] = ()
    delete_config: Sequence[str] = ()
    disable_rack_aware: bool = False
    force: bool = False
    yes: bool = False
    wait: bool = False
    folders: bool = False
    purge: bool = False
    wait_timeout: float = DEFAULT_WAIT_S
    if_exists: bool = False
    if_not_exists: bool = False
    exclude_internal: bool = False
    under_replicated_partitions: bool = False
    under_min_isr_partitions: bool = False
    at_min_isr_partitions: bool = False
    unavailable_partitions: bool = False
    topics_with_overrides: bool = False

    def has(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value != ()

    @property
    def action(self) -> str:
        return next(name for name in ACTIONS if self.has(name))

    @property
    def reports(self) -> tuple[str, ...]:
        return tuple(name for name in REPORTS if self.has(name))


def check_usage(options: TopicOptions) -> None:
    """TopicCommandOptions.checkArgs: raises click.UsageError with Kafka's texts."""
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    if options.bootstrap_server is not None and options.zookeeper is not None:
        raise click.UsageError("Only one of --bootstrap-server or --zookeeper must be specified")
    action = options.action
    if action == "list_deleted" and options.zookeeper:
        raise _conflict("list_deleted", "zookeeper")
    if action not in ("list", "list_deleted", "describe") or (
        action == "describe" and options.if_exists
    ):
        _require(options, "topic", "topic_id")
    if action == "create" and options.zookeeper and not options.has("replica_assignment"):
        _require(options, "partitions")
        _require(options, "replication_factor")
    if action == "alter" and not options.zookeeper:
        if options.has("config"):
            raise click.UsageError(
                'Option combination "[bootstrap-server],[config]" can\'t be used with option '
                '"[alter]" (the kafka-configs CLI supports altering topic configs with a '
                "--bootstrap-server option)"
            )
        _require(options, "partitions")
    for name, actions in _GOES_WITH.items():
        if options.has(name) and action not in actions:
            raise _conflict(name, action)
        if options.has(name) and options.zookeeper and name in _NOT_WITH_ZOOKEEPER:
            raise _conflict(name, "zookeeper")
    if options.purge and options.zookeeper:
        raise _conflict("purge", "zookeeper")
    if options.folders and (options.zookeeper or not options.wait):
        raise click.UsageError('Option "[folders]" needs "[wait]" and brokers to ask')
    if options.has("delete_config") and not options.zookeeper:
        raise _conflict("delete_config", "bootstrap_server")
    if action == "create" and options.has("replica_assignment"):
        for name in ("partitions", "replication_factor"):
            if options.has(name):
                raise _conflict("replica_assignment", name)
    given = [*options.reports, *["topics_with_overrides"] * options.topics_with_overrides]
    if len(given) > 1:
        raise _conflict(given[0], given[1])


def _require(options: TopicOptions, name: str, *instead: str) -> None:
    if not any(options.has(accepted) for accepted in (name, *instead)):
        raise click.UsageError(f'Missing required argument "[{name.replace("_", "-")}]"')


def _conflict(name: str, other: str) -> click.UsageError:
    shown = [text.replace("_", "-") for text in (name, other)]
    return click.UsageError(f'Option "[{shown[0]}]" can\'t be used with option "[{shown[1]}]"')


def check_numbers(options: TopicOptions) -> None:
    """The checks that kafka-topics makes before it asks a broker."""
    factor = options.replication_factor
    if factor is not None and not 1 <= factor <= MAX_REPLICATION_FACTOR:
        raise TopicCommandError(
            f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive"
        )
    if options.partitions is not None and options.partitions < 1:
        raise TopicCommandError("The partitions must be greater than 0")


def parse_configs(given: Sequence[str]) -> dict[str, str]:
    """`key=val` pairs; as in Kafka the value is not empty and has no further '='."""
    pairs = [re.split(r"\s*=\s*", item) for item in given]
    if any(len(pair) != 2 or not pair[1] for pair in pairs):
        raise TopicCommandError(
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".'
        )
    return {name.strip(): value.strip() for name, value in pairs}


def format_version_warning(configs: Mapping[str, str]) -> str | None:
    """kafka-topics and kafka-configs warn of this one config."""
    version = configs.get(_FORMAT_VERSION)
    if version is None:
        return None
    return (
        f"WARNING: The configuration {_FORMAT_VERSION}={version} is specified. This configuration "
        "will be ignored if the version is newer than the inter.broker.protocol.version specified "
        "in the broker."
    )


def parse_assignment(given: str) -> dict[int, list[int]]:
    """`1:2,2:3`: the brokers of partition 0, of partition 1, and so on."""
    assignment: dict[int, list[int]] = {}
    for partition, part in enumerate(given.split(",")):
        brokers = [_broker_id(item.strip()) for item in part.split(":")]
        repeated = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if repeated:
            raise TopicCommandError(
                "Partition replica lists may not contain duplicate entries: "
                + ",".join(map(str, repeated))
            )
        assignment[partition] = brokers
        if len(brokers) != len(assignment[0]):
            raise TopicCommandError(
                f"Partition {partition} has different replication factor: "
                + ",".join(map(str, brokers))
            )
    return assignment


def _broker_id(text: str) -> int:
    try:
        return java_integer(text, 31)
    except ValueError:
        raise TopicCommandError(f'For input string: "{text}"') from None


def announce(options: TopicOptions, new_topic: str, configs: Mapping[str, str]) -> None:
    """The warnings of kafka-topics before it does anything; with json they go to stderr."""
    to_stderr = options.output == "json"
    warning = format_version_warning(configs)
    if warning is not None:
        click.echo(warning, err=to_stderr)
    if has_collision_chars(new_topic):
        click.echo(_COLLISION_WARNING, err=to_stderr)


def select_topics(names: Sequence[str], options: TopicOptions) -> list[str]:
    """Names that match `--topic`, which is a regular expression here (Kafka's IncludeList)."""
    wanted = options.topic
    if wanted is None:
        return list(names)
    pattern = compile_include_list(wanted)
    found = [name for name in names if pattern.fullmatch(name)]
    if not found and options.action not in ("list", "list_deleted") and not options.if_exists:
        trash = " (if it is in the trash already: ottla purge)" if options.purge else ""
        raise TopicCommandError(f"Topic '{wanted}' does not exist as expected{trash}")
    return found


def needs_asking(options: TopicOptions, found: Sequence[str]) -> bool:
    """Whether more goes than the names that were typed, or something that Kafka itself needs."""
    if not found or options.yes or options.force:
        return False
    typed = {name.strip("\"' ") for name in (options.topic or "").split(",")}
    return not set(found) <= typed or any(map(is_internal, found))


def confirm_deletion(options: TopicOptions, found: Sequence[str]) -> None:
    """On a terminal, lists what goes and asks; a script goes on. Raises click.Abort."""
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not is_terminal or not needs_asking(options, found):
        return
    for name in found:
        click.echo(f"  {name} (internal)" if is_internal(name) else f"  {name}", err=True)
    with interruptible():
        is_wanted = click.confirm(f"Delete {_count(found)}?", err=True)
    if not is_wanted:
        raise TopicCommandError("nothing was deleted; --yes does not ask")


def _count(found: Sequence[str]) -> str:
    return "this topic" if len(found) == 1 else f"these {len(found)} topics"


def option_values(given: Mapping[str, object]) -> TopicOptions:
    return TopicOptions(**given)  # type: ignore[arg-type]  # click's options carry these types
