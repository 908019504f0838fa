"""`ottla get-offsets`: kafka-get-offsets' flags and lines (GetOffsetShell of Kafka 3 and 4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.include_list import compile_include_list
from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    describe_error,
    flag,
    output_option,
    print_json,
    run_async,
)
from ottla.config.definitions import java_integer
from ottla.errors import KafkaError, OttlaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4,
         "latest-tiered": -5}  # fmt: skip
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_NO_RECORD = -1
_SOME_FAILED = 1
_LAST_PARTITION = 2**31 - 1


class OffsetsFailed(OttlaError):
    """A request that cannot be made, with Kafka's text."""


class Rule(NamedTuple):
    """Topics by name, and which of their partitions."""

    topic: re.Pattern[str]
    takes_partition: Callable[[int], bool]

    def takes_topic(self, name: str) -> bool:
        return self.topic.fullmatch(name) is not None


@click.command("get-offsets", help="Show offsets of topics, by end or by time.")
@bootstrap_option
@command_config_option
@click.option(
    "--topic", metavar="REGEX", help="Topics by name or regular expression.  [default: all]"
)
@click.option("--partitions", metavar="N,…", help="Partitions by number.  [default: all]")
@click.option(
    "--topic-partitions", metavar="PATTERN,…",
    help="Both in one, instead: t:1,u:0-3,v,w:5-,x:-3. Of a range the end is left out.",
)  # fmt: skip
@click.option(
    "--time", "moment", default="latest", show_default=True, metavar="TIME",
    help="latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), "
    "or a time in milliseconds since 1970: the first record at or after it.",
)  # fmt: skip
@flag("exclude-internal-topics", "Leave internal topics out.")
@output_option
@click.pass_context
def command(
    context: click.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    moment: str,
    exclude_internal_topics: bool,
    output: str,
) -> None:
    async def work() -> None:
        if topic_partitions is not None and (topic is not None or partitions is not None):
            raise OffsetsFailed("--topic-partitions cannot be used with --topic or --partitions")
        timestamp = parse_time(moment)
        if topic_partitions is not None:
            wanted = parse_rules(topic_partitions)
        else:
            wanted = [parse_names(topic, partitions)]
        async with connect_admin(bootstrap_server, command_config) as admin:
            found = await _offsets(admin, wanted, timestamp, not exclude_internal_topics)
        _show(found, output)
        if any(isinstance(offset, KafkaError) for offset in found.values()):
            context.exit(_SOME_FAILED)

    try:
        run_async(work())
    except OttlaError as error:
        raise click.ClickException(f"Error occurred: {describe_error(error)}") from None


def parse_time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return java_integer(text, 63)
    except ValueError:
        raise OffsetsFailed(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered, or a specified long "
            "format timestamp"
        ) from None


def parse_names(topic: str | None, partitions: str | None) -> Rule:
    pattern = compile_include_list(topic if topic is not None else ".*")
    # Java's split leaves empty words at the end out.
    words = partitions.rstrip(",").split(",") if partitions else []
    try:
        numbers = {java_integer(word, 31) for word in words}
    except ValueError:
        raise OffsetsFailed(
            "--partitions expects a comma separated list of numeric partition ids, but received: "
            f"{partitions}"
        ) from None
    return Rule(pattern, lambda partition: not numbers or partition in numbers)


def parse_rules(text: str) -> list[Rule]:
    return [_parse_rule(item) for item in text.rstrip(",").split(",")]


def _parse_rule(text: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise OffsetsFailed(f"Invalid rule specification: {text}")
    name, only, low, high = match.groups()
    pattern = compile_include_list(name or ".*")
    if only:
        first, end = _number(only), _number(only) + 1
    else:
        first, end = _number(low or "0"), _number(high or str(_LAST_PARTITION))
    return Rule(pattern, lambda partition: first <= partition < end)


def _number(text: str) -> int:
    try:
        return java_integer(text, 31)
    except ValueError:
        raise OffsetsFailed(f'For input string: "{text}"') from None


async def _offsets(
    admin: Admin, rules: Sequence[Rule], timestamp: int, include_internal: bool
) -> dict[TopicPartition, int | KafkaError]:
    from ottla.client.admin.types import raise_first_error
    from ottla.client.offsets import try_list_offsets

    listings = await admin.list_topics(include_internal=include_internal)
    by_topic = {
        listing.name: [rule for rule in rules if rule.takes_topic(listing.name)]
        for listing in listings
    }
    described = await admin.describe_topics(name for name, found in by_topic.items() if found)
    topics = raise_first_error(described)
    chosen = [
        TopicPartition(name, part.partition)
        for name in sorted(topics)
        for part in topics[name].partitions
        if any(rule.takes_partition(part.partition) for rule in by_topic[name])
    ]
    if not chosen:
        raise OffsetsFailed("Could not match any topic-partitions with the specified filters")
    return await try_list_offsets(admin.cluster, chosen, timestamp)


def _show(found: dict[TopicPartition, int | KafkaError], output: str) -> None:
    sound = {tp: offset for tp, offset in found.items() if not isinstance(offset, KafkaError)}
    # A partition without such a record is left out, as in Kafka's tool.
    there = {tp: offset for tp, offset in sound.items() if offset != _NO_RECORD}
    if output == "json":
        print_json(
            [{"topic": tp.topic, "partition": tp.partition, "offset": there[tp]} for tp in there]
        )
    else:
        for tp, offset in there.items():
            click.echo(f"{tp.topic}:{tp.partition}:{offset}")
    for tp, error in found.items():
        if isinstance(error, KafkaError):
            click.echo(f"Skip getting offsets for topic-partition {tp} due to error: {error}",
                       err=True)  # fmt: skip
