"""`ottla consume`: records of a topic as lines of text or JSON."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    flag,
    run_async,
    run_until_interrupted,
    topic_argument,
    topic_failure,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.fetch import FetchedRecord, RecordReader


class Start(NamedTuple):
    """Where to begin: at an end of the log (with a distance), at an offset, or at a time."""

    at_end: bool = False
    offset: int | None = None
    back: int = 0
    timestamp_ms: int | None = None


class Wanted(NamedTuple):
    topic: str
    partitions: tuple[int, ...]
    start: Start
    follow: bool
    max_messages: int | None
    timeout_ms: int


@click.command("consume", help="Read records of a topic, up to its end or continuously.")
@topic_argument
@bootstrap_option
@command_config_option
@flag("from-beginning", "Start at the first record. The default, except with --follow.")
@click.option(
    "--offset", metavar="OFFSET",
    help="Start at an offset, at 'earliest' or 'latest', or at -N: the last N of each partition.",
)  # fmt: skip
@click.option(
    "--since", metavar="TIME",
    help="Start with the first record of that time or later: 10m, 1h30m (ago), 2026-01-31T09:30.",
)  # fmt: skip
@click.option(
    "--group", metavar="NAME",
    help="Read as a member of a consumer group: go on where it stopped, share the partitions with "
    "its other members.",
)  # fmt: skip
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), multiple=True,
    help="Only this partition; may be given more than once.",
)  # fmt: skip
@flag("follow", "Keep reading new records until Ctrl-C.")
@click.option(
    "--max-messages", type=click.IntRange(min=1), metavar="N", help="Stop after N records."
)
@click.option(
    "--format", "--output", "form", type=click.Choice(["text", "json"]), default="text",
    show_default=True,
)  # fmt: skip
@flag("keys", "Print keys in front of values.")
@flag("headers", "Print headers, h1:v1,h2:v2.")
@flag("timestamps", "Print timestamps.")
@flag("positions", "Print partitions and offsets.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE",
    help="The same in Kafka's words: print.key=true, key.separator=:, null.literal=-, …",
)  # fmt: skip
@click.option("--separator", default="\\t", show_default=True, help="What separates them.")
@click.option(
    "--timeout", type=click.IntRange(min=1), default=30_000, show_default=True, metavar="MS",
    help="How long to look for a leader.",
)  # fmt: skip
def command(
    topic: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    from_beginning: bool,
    offset: str | None,
    since: str | None,
    group: str | None,
    partitions: tuple[int, ...],
    follow: bool,
    max_messages: int | None,
    form: str,
    keys: bool,
    headers: bool,
    timestamps: bool,
    positions: bool,
    properties: tuple[str, ...],
    separator: str,
    timeout: int,
) -> None:
    from ottla.cli.data.record_text import Columns, json_line, unescaped, with_properties

    if group is not None:
        check_group(partitions, offset, since)
    start = choose_start(from_beginning, offset, since, follow=follow)
    wanted = Wanted(topic, partitions, start, follow, max_messages, timeout)
    columns = Columns(
        timestamps, positions, positions, headers, keys, separator=unescaped(separator)
    )
    text_line = with_properties(columns, properties).line
    line = json_line if form == "json" else text_line

    async def work() -> None:
        async with connect_admin(bootstrap_server, command_config) as admin:
            if group is None:
                await _print_records(_batches(admin, wanted), line, max_messages)
            else:
                await _read_as_member(admin, wanted, group, line)

    (run_until_interrupted if follow else run_async)(work())


def check_group(partitions: tuple[int, ...], offset: str | None, since: str | None) -> None:
    if partitions:
        raise click.UsageError("Options group and partition cannot be specified together.")
    if offset is not None or since is not None:
        raise click.UsageError(
            "a group goes on where it stopped: `ottla groups --reset-offsets` moves it, --offset "
            "and --since are for reading without one"
        )


async def _read_as_member(
    admin: Admin, wanted: Wanted, group: str, line: Callable[[FetchedRecord], bytes]
) -> None:
    from ottla.cli.data.consume_group import GroupReader, GroupReading

    await _partitions(admin, wanted)  # a topic that is not there has a better message

    async def show(found: list[FetchedRecord]) -> None:
        data = b"".join([line(record) for record in found])
        # In a thread: who reads slowly at the other end of a pipe must not end the session.
        await asyncio.to_thread(_write, data)

    reading = GroupReading(
        group,
        wanted.topic,
        not wanted.start.at_end,
        wanted.follow,
        wanted.max_messages,
        wanted.timeout_ms,
    )
    await GroupReader(admin.cluster, reading, show).run()


def _write(data: bytes) -> None:
    out = sys.stdout.buffer
    out.write(data)
    # A reader at the other end of a pipe waits for these, and a closed pipe shows here.
    out.flush()


def choose_start(
    from_beginning: bool, offset: str | None, since: str | None, *, follow: bool
) -> Start:
    given = {"--from-beginning": from_beginning, "--offset": offset, "--since": since}
    named = [name for name, value in given.items() if value not in (None, False)]
    if len(named) > 1:
        raise click.UsageError(f"{named[0]} and {named[1]} cannot be used together")
    if offset is not None:
        return parse_start(offset)
    if since is not None:
        from ottla.cli.data.since import parse_since
        from ottla.runtime import system_runtime

        return Start(timestamp_ms=parse_since(since, system_runtime().clock.now_ms()))
    return Start(at_end=follow and not from_beginning)


def parse_start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return Start(at_end=text == "latest")
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise click.UsageError(f"--offset: {text!r} is neither a number nor earliest or latest")
    number = int(text)
    return Start(at_end=True, back=-number) if text.startswith("-") else Start(offset=number)


async def _print_records(
    batches: AsyncIterator[list[FetchedRecord]],
    line: Callable[[FetchedRecord], bytes],
    max_messages: int | None,
) -> None:
    left = max_messages
    async for batch in batches:
        chosen = batch if left is None else batch[:left]
        _write(b"".join([line(record) for record in chosen]))
        if left is not None:
            left -= len(chosen)
            if not left:
                return


async def _batches(admin: Admin, wanted: Wanted) -> AsyncIterator[list[FetchedRecord]]:
    from ottla.client.fetch import RecordReader
    from ottla.client.offsets import LATEST, list_offsets

    cluster, timeout_ms = admin.cluster, wanted.timeout_ms
    partitions = await _partitions(admin, wanted)
    ends = await list_offsets(cluster, partitions, LATEST, timeout_ms=timeout_ms)
    positions = await _positions(admin, wanted, partitions, ends)
    if wanted.follow:
        reader = RecordReader(cluster, positions, timeout_ms=timeout_ms)
        while True:
            yield await _next(reader, wanted.topic)
    # What is read to its end is not asked for any more.
    open_partitions = {tp: at for tp, at in positions.items() if at < ends[tp]}
    reader = RecordReader(cluster, open_partitions, timeout_ms=timeout_ms)
    while reader.positions:
        found = await _next(reader, wanted.topic)
        yield [record for record in found if record.offset < ends[record.partition]]
        for tp in [tp for tp, at in reader.positions.items() if at >= ends[tp]]:
            del reader.positions[tp]


async def _next(reader: RecordReader, topic: str) -> list[FetchedRecord]:
    try:
        return await reader.poll()
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        # It was there when this began.
        raise KafkaError(error.code, f"the topic {topic!r} was deleted in the meantime") from None


async def _partitions(admin: Admin, wanted: Wanted) -> list[TopicPartition]:
    described = (await admin.describe_topics([wanted.topic]))[wanted.topic]
    if isinstance(described, KafkaError):
        named = KafkaError(described.code, f"{wanted.topic}: {described}")
        raise topic_failure(wanted.topic, named)
    there = [p.partition for p in described.partitions]
    missing = sorted(set(wanted.partitions) - set(there))
    if missing:
        raise OttlaError(f"{wanted.topic} has {len(there)} partitions, there is no {missing[0]}")
    chosen: Iterable[int] = sorted(set(wanted.partitions)) or there
    return [TopicPartition(wanted.topic, index) for index in chosen]


async def _positions(
    admin: Admin,
    wanted: Wanted,
    partitions: list[TopicPartition],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    from ottla.client.offsets import EARLIEST, list_offsets

    start = wanted.start
    if start.at_end and not start.back:
        return ends
    if start.timestamp_ms is not None:
        found = await list_offsets(
            admin.cluster, partitions, start.timestamp_ms, timeout_ms=wanted.timeout_ms
        )
        # Nothing is that new: what comes next will be.
        return {tp: at if at >= 0 else ends[tp] for tp, at in found.items()}
    begins = await list_offsets(admin.cluster, partitions, EARLIEST, timeout_ms=wanted.timeout_ms)
    if start.offset is not None:
        # An offset outside of a log means its nearest record: partitions differ.
        return {tp: min(max(start.offset, begins[tp]), ends[tp]) for tp in partitions}
    if start.at_end:
        return {tp: max(ends[tp] - start.back, begins[tp]) for tp in partitions}
    return begins
