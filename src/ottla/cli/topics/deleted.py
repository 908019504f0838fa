"""`ottla topics --list-deleted`: what is in the trash (ADR 50)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from ottla.cli.options import print_json
from ottla.cli.topics.options import TopicCommandError, TopicOptions, select_topics
from ottla.client.admin.client import Admin
from ottla.client.admin.trash import DeletedFolder, DeletedTopic
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicId, format_topic_id

# As long as brokers leave a folder that is set aside, by default (file.delete.delay.ms).
REMOVAL_DELAY_S = 60.0
_POLL_S = 0.5

Sizes = Mapping[TopicId | None, int]
# Beyond this a time is as good as never.
_LAST_MS = 253_402_300_799_000


async def list_deleted(admin: Admin, options: TopicOptions) -> None:
    topics = [topic for topic in await admin.deleted_topics() if topic.state != "going"]
    names = set(select_topics(sorted({topic.name for topic in topics}), options))
    shown = [topic for topic in topics if topic.name in names]
    sizes = await _sizes(admin) if shown else {}
    if options.output == "json":
        print_json([json_value(topic, sizes) for topic in shown])
        return
    for line in text_lines(shown, sizes):
        click.echo(line)


async def _sizes(admin: Admin) -> dict[TopicId | None, int]:
    """Of all replicas together, on brokers that can be asked."""
    sizes: dict[TopicId | None, int] = {}
    for node in (await admin.describe_cluster()).nodes:
        for folder in await folders_on(admin, node.id):
            if folder.state == "kept":
                sizes[folder.topic_id] = sizes.get(folder.topic_id, 0) + max(0, folder.size)
    return sizes


async def folders_on(
    admin: Admin, broker_id: int, names: Sequence[str] | None = None
) -> list[DeletedFolder]:
    """None of a broker that cannot be asked, or is not Ottla's."""
    try:
        return await admin.deleted_folders(broker_id, names)
    except (KafkaError, OSError):
        return []


async def wait_for_folders(admin: Admin, names: Sequence[str], options: TopicOptions) -> None:
    """Until no broker has a folder that waits for its removal."""
    to_stderr = options.output == "json"
    loop = asyncio.get_running_loop()
    begun = loop.time()
    told = ""
    while True:
        found: list[DeletedFolder] = []
        for node in (await admin.describe_cluster()).nodes:
            found += await folders_on(admin, node.id, names)
        removing = [folder for folder in found if folder.state == "removing"]
        line = progress_line(removing)
        if line != told:
            told = line
            click.echo(line, err=to_stderr)
        if not removing:
            break
        limit_s = options.wait_timeout + REMOVAL_DELAY_S
        if loop.time() - begun >= limit_s:
            raise TopicCommandError(f"still there after {limit_s:g} s: {removing[0].path}")
        await asyncio.sleep(_POLL_S)


async def tell_kept(admin: Admin, names: Sequence[str], options: TopicOptions) -> None:
    """Whoever deleted something should know that it is not gone."""
    newest: dict[str, DeletedTopic] = {}
    for topic in await _kept(admin, names):
        known = newest.get(topic.name)
        if known is None or known.deleted_ms < topic.deleted_ms:
            newest[topic.name] = topic
    for name, topic in sorted(newest.items()):
        click.echo(
            f"Topic {name} is in the trash until {shown_time(topic.until_ms)} "
            f"(ottla undelete {name}).",
            err=options.output == "json",
        )


async def purge_all(
    admin: Admin, names: Sequence[str], ids: Collection[TopicId], options: TopicOptions
) -> None:
    """Those of these ids; whatever else of their names is in the trash stays there."""
    for topic in await _kept(admin, names):
        if topic.topic_id in ids:
            await admin.purge_topic(topic.name, topic_id=topic.topic_id)
            click.echo(f"Purged topic {topic.name}.", err=options.output == "json")


async def _kept(admin: Admin, names: Sequence[str]) -> list[DeletedTopic]:
    try:
        return [one for one in await admin.deleted_topics(names) if one.state == "kept"]
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return []  # Apache Kafka has no trash


def progress_line(removing: Sequence[DeletedFolder]) -> str:
    if not removing:
        return "No folder is left."
    brokers = ", ".join(map(str, sorted({folder.broker_id for folder in removing})))
    return (
        f"Folders left to remove: {len(removing)} (brokers {brokers}, which wait "
        "file.delete.delay.ms with it)"
    )


def text_lines(topics: Sequence[DeletedTopic], sizes: Sizes) -> Iterator[str]:
    for topic in topics:
        yield "\t".join(
            (
                f"Topic: {topic.name}",
                f"TopicId: {format_topic_id(topic.topic_id)}",
                f"PartitionCount: {topic.partitions}",
                f"ReplicationFactor: {topic.replication_factor}",
                f"Size: {sizes.get(topic.topic_id, 0)}",
                f"Deleted: {shown_time(topic.deleted_ms)}",
                f"Until: {shown_time(topic.until_ms)}",
            )
        )


def json_value(topic: DeletedTopic, sizes: Sizes) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": format_topic_id(topic.topic_id),
        "state": topic.state,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "size": sizes.get(topic.topic_id, 0),
        "deleted_ms": topic.deleted_ms,
        "until_ms": topic.until_ms,
    }


def shown_time(ms: int) -> str:
    if ms >= _LAST_MS:
        return "forever"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
