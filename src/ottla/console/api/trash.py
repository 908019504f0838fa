"""The page of deleted topics that are kept: which there are, back with one, away with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ottla.client.admin.trash import DeletedTopic as Kept
from ottla.console import commands
from ottla.console.api.topics import ShortText, at_field
from ottla.console.picture import fresh_picture
from ottla.console.web.failures import from_exception, invalid
from ottla.console.web.routes import Call, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.types import TopicId, format_topic_id, parse_topic_id

# Beyond this a time is as good as never.
_LAST_MS = 253_402_300_799_000


class DeletedTopic(msgspec.Struct):
    """`state` is kept or returning; `until_ms` is null where it is kept for ever. `bytes` are those
    of all replicas on brokers that answer."""

    name: str
    topic_id: str
    state: str
    partitions: int
    replication_factor: int
    bytes: int
    deleted_ms: int
    until_ms: int | None


class DeletedTopics(msgspec.Struct):
    """`is_known` is false for a cluster that keeps nothing: Apache Kafka."""

    is_known: bool
    topics: list[DeletedTopic]


class Undeletion(msgspec.Struct):
    """`new_name` is for one whose own name is taken."""

    new_name: ShortText | None = None


class Undeleted(msgspec.Struct):
    name: str
    topic_id: str


async def deleted(call: Call) -> DeletedTopics:
    try:
        kept = await call.admin.deleted_topics()
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return DeletedTopics(False, [])
        raise
    shown = [topic for topic in kept if topic.state != "going"]
    sizes = await _sizes(call) if shown else {}
    found = [_told(topic, sizes) for topic in shown]
    return DeletedTopics(True, sorted(found, key=lambda one: -one.deleted_ms))


async def _sizes(call: Call) -> dict[TopicId | None, int]:
    sizes: dict[TopicId | None, int] = {}
    for node in (await call.admin.describe_cluster()).nodes:
        try:
            folders = await call.admin.deleted_folders(node.id)
        except (KafkaError, OSError):  # one that is away, or not Ottla's
            continue
        for folder in folders:
            if folder.state == "kept":
                sizes[folder.topic_id] = sizes.get(folder.topic_id, 0) + max(0, folder.size)
    return sizes


def _told(topic: Kept, sizes: dict[TopicId | None, int]) -> DeletedTopic:
    return DeletedTopic(
        topic.name,
        format_topic_id(topic.topic_id),
        topic.state,
        topic.partitions,
        topic.replication_factor,
        sizes.get(topic.topic_id, 0),
        topic.deleted_ms,
        None if topic.until_ms >= _LAST_MS else topic.until_ms,
    )


def _which(call: Call) -> tuple[str, TopicId]:
    """Raises KafkaError or ApiError for what no topic can have: it is not sent anywhere."""
    name = call.path["name"]
    names.validate(name)
    try:
        return name, parse_topic_id(call.path["id"])
    except ValueError:
        raise invalid(f"{call.path['id']} is no id of a topic.") from None


async def _kept(call: Call) -> DeletedTopic:
    name, topic_id = _which(call)
    for topic in await call.admin.deleted_topics([name]):
        if topic.topic_id == topic_id and topic.state != "going":
            return _told(topic, await _sizes(call))
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} is not in the trash any more.")


async def check_undelete(call: Call) -> DeletedTopic:
    kept = await _kept(call)
    new_name = _new_name(call)
    names.validate(new_name)
    answer = await call.admin.cluster.metadata([new_name])
    if any(topic.error_code == ErrorCode.NONE for topic in answer.topics):
        taken = KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"There is a topic {new_name}: choose another name."
        )
        raise from_exception(taken, "new_name") or taken
    return kept


def _new_name(call: Call) -> str:
    form: Undeletion = call.body
    return form.new_name or call.path["name"]


async def undelete(call: Call) -> Undeleted:
    name, topic_id = _which(call)
    new_name = _new_name(call)
    try:
        found = await call.admin.undelete_topic(
            name, topic_id=topic_id, new_name=None if new_name == name else new_name
        )
    except KafkaError as error:
        raise at_field(error) from None
    await fresh_picture(call.access)
    return Undeleted(new_name, format_topic_id(found))


def _undelete_commands(call: Call) -> Sequence[str]:
    name, topic_id = _which(call)
    new_name = _new_name(call)
    renamed = () if new_name == name else ("--as", new_name)
    words = ("--id", format_topic_id(topic_id), *renamed, *commands.arguments(name))
    return [commands.ottla(call.settings, "undelete", *words)]


async def purge(call: Call) -> Undeleted:
    name, topic_id = _which(call)
    return Undeleted(name, format_topic_id(await call.admin.purge_topic(name, topic_id=topic_id)))


def _purge_commands(call: Call) -> Sequence[str]:
    name, topic_id = _which(call)
    words = ("--id", format_topic_id(topic_id), "--yes", *commands.arguments(name))
    return [commands.ottla(call.settings, "purge", *words)]


ROUTES: list[Any] = [
    Route("GET", "/deleted-topics", deleted, "Deleted topics that are kept", answer=DeletedTopics),
    Route(
        "POST", "/deleted-topics/{name}/{id}/undelete", undelete, "Bring one back",
        body=Undeletion, answer=Undeleted, commands=_undelete_commands, preview=check_undelete,
    ),
    Route(
        "DELETE", "/deleted-topics/{name}/{id}", purge, "Remove one for good", answer=Undeleted,
        commands=_purge_commands, preview=_kept,
    ),
]  # fmt: skip
FEEDS: list[Any] = []
