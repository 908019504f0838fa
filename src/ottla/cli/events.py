"""`ottla events`: what the controller did, from the topic it publishes its diary to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    flag,
    output_option,
    run_async,
    run_until_interrupted,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.client.admin.client import Admin
    from ottla.client.fetch import FetchedRecord

LIFECYCLE_TOPIC = "__ottla_lifecycle"
# Stands where an event is about more topics than it can name.
MANY_TOPICS = "*"


class NoEvents(OttlaError):
    """There is nothing to read from."""


@click.command("events", help="Show what the controller did to topics.")
@bootstrap_option
@command_config_option
@flag("follow", "Keep showing new events until Ctrl-C.")
@flag("new", "With --follow: leave out what happened before.")
@click.option("--topic", help="Only events of this topic.")
@output_option
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    follow: bool,
    new: bool,
    topic: str | None,
    output: str,
) -> None:
    if new and not follow:
        raise click.UsageError("--new goes with --follow")
    run = run_until_interrupted if follow else run_async
    run(_execute(bootstrap_server, command_config, follow, new, topic, output))


async def _execute(
    bootstrap_server: str | None,
    command_config: Path | None,
    follow: bool,
    new: bool,
    topic: str | None,
    output: str,
) -> None:
    async with connect_admin(bootstrap_server, command_config) as admin:
        async for record in _records(admin, follow=follow, new=new):
            event = parse_event(record.value)
            if event is None:
                click.echo(f"the record at offset {record.offset} is not an event", err=True)
            elif topic is None or is_about(event, topic):
                click.echo(
                    json.dumps(event, ensure_ascii=False) if output == "json" else line(event)
                )


async def _records(admin: Admin, *, follow: bool, new: bool) -> AsyncIterator[FetchedRecord]:
    from ottla.client.fetch import RecordReader
    from ottla.client.offsets import EARLIEST, LATEST, list_offsets
    from ottla.types import TopicPartition

    described = (await admin.describe_topics([LIFECYCLE_TOPIC])).get(LIFECYCLE_TOPIC)
    if isinstance(described, KafkaError):
        if described.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise described
        described = None
    if described is None:
        raise NoEvents(
            f"there is no topic {LIFECYCLE_TOPIC}: brokers publish events when "
            "ottla.lifecycle.topic.enable is true"
        )
    partitions = [TopicPartition(LIFECYCLE_TOPIC, p.partition) for p in described.partitions]
    begin = await list_offsets(admin.cluster, partitions, LATEST if new else EARLIEST)
    reader = RecordReader(admin.cluster, begin)
    if follow:
        source = reader.follow()
    else:
        source = reader.read_until(await list_offsets(admin.cluster, partitions, LATEST))
    async for record in source:
        yield record


def parse_event(value: bytes | None) -> dict[str, Any] | None:
    """None for what is not an event: anyone may write to the topic."""
    try:
        event = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and "event" in event else None


def is_about(event: dict[str, Any], topic: str) -> bool:
    """Requests and answers that name too many topics for an event each may name this one."""
    return event.get("topic") in (topic, MANY_TOPICS)


def line(event: dict[str, Any]) -> str:
    """One event in words: when, who, what, to what, from which state to which, who leads, why."""
    words = [_time(event.get("ts_ms")), f"epoch={event.get('controller_epoch', '?')}"]
    words.append(str(event["event"]))
    if event.get("kind") != "event":
        words.append(str(event.get("kind", "?")))
    subject = event.get("topic")
    if subject is not None:
        words.append(f"{subject}-{event['partition']}" if "partition" in event else str(subject))
    if "broker" in event:
        words.append(f"broker={event['broker']}")
    if "to" in event:
        words.append(f"{event['from']} -> {event['to']}" if "from" in event else str(event["to"]))
    if "leader" in event:
        words.append(f"leader={'none' if event['leader'] == -1 else event['leader']}")
    words += [f"{key}={_numbers(event[key])}" for key in ("isr", "replicas") if key in event]
    words += [f"{key}={event[key]}" for key in ("leader_epoch", "error") if key in event]
    if event.get("cause"):
        words.append(f"({event['cause']})")
    # A record is foreign text: no escape sequence of it reaches the terminal.
    return "".join(char if char.isprintable() else "?" for char in " ".join(words))


def _numbers(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _time(ts_ms: object) -> str:
    try:
        moment = datetime.fromtimestamp(float(str(ts_ms)) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}Z"
