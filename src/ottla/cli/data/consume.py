"""`ottla consume`: records of a topic as lines of text or JSON."""

from __future__ import annotations

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
    """Where to begin: at an end of the log (with a distance), or at an offset."""

    at_end: bool = False
    offset: int | None = None
    back: int = 0


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
    partitions: tuple[int, ...],
    follow: bool,
    max_messages: int | None,
    form: str,
    keys: bool,
    headers: bool,
    timestamps: bool,
    positions: bool,
    separator: str,
    timeout: int,
) -> None:
    from ottla.cli.data.record_text import Columns, json_line, unescaped

    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset cannot be used together")
    if offset is not None:
        start = parse_start(offset)
    else:
        start = Start(at_end=follow and not from_beginning)
    wanted = Wanted(topic, partitions, start, follow, max_messages, timeout)
    line = json_line
    if form == "text":
        line = Columns(timestamps, positions, headers, keys, unescaped(separator)).line

    async def work() -> None:
        async with connect_admin(bootstrap_server, command_config) as admin:
            await _print_records(_batches(admin, wanted), line, max_messages)

    (run_until_interrupted if follow else run_async)(work())


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
    out = sys.stdout.buffer
    left = max_messages
    async for batch in batches:
        chosen = batch if left is None else batch[:left]
        out.write(b"".join([line(record) for record in chosen]))
        # A reader at the other end of a pipe waits for these, and a closed pipe shows here.
        out.flush()
        if left is not None:
            left -= len(chosen)
            if not left:
                return


async def _batches(admin: Admin, wanted: Wanted) -> AsyncIterator[list[FetchedRecord]]:
    from ottla.client.fetch import LATEST, RecordReader, list_offsets

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
    from ottla.client.fetch import EARLIEST, list_offsets

    start = wanted.start
    if start.at_end and not start.back:
        return ends
    begins = await list_offsets(admin.cluster, partitions, EARLIEST, timeout_ms=wanted.timeout_ms)
    if start.offset is not None:
        # An offset outside of a log means its nearest record: partitions differ.
        return {tp: min(max(start.offset, begins[tp]), ends[tp]) for tp in partitions}
    if start.at_end:
        return {tp: max(ends[tp] - start.back, begins[tp]) for tp in partitions}
    return begins
