"""A topic gets another name, or another number of partitions: what only Ottla can do.

A resize is a job on Spark, which no console starts: it shows the plan and the command, says how far
a resize is, and gives one up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ottla.client.admin.resizing import ResizeState
from ottla.console import commands
from ottla.console.api.topics import Int16, Int32, ShortText
from ottla.console.picture import fresh_picture
from ottla.console.web.failures import from_exception
from ottla.console.web.routes import Call, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.topics.partitioners import Partitioner

_FIELDS = {
    ErrorCode.INVALID_PARTITIONS: "partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
}
_NOT_OTTLAS = "The controller of this cluster is not Ottla's: Apache Kafka cannot rename a topic."


class Renaming(msgspec.Struct):
    new_name: ShortText


class Renamed(msgspec.Struct):
    """`acls` are those that name the old name, in words: they stay as they are."""

    name: str
    groups: list[str]
    acls: list[str]


class Resize(msgspec.Struct):
    """`phase` is copying, fenced (it takes no records), moving or carrying (nearly over)."""

    topic: str
    shadow: str
    partitions: int
    replication_factor: int
    partitioner: str
    phase: str
    begun_ms: int


class Resizes(msgspec.Struct):
    """`is_known` is false for a cluster that cannot resize: Apache Kafka."""

    is_known: bool
    resizes: list[Resize]


class ResizeQuery(msgspec.Struct):
    """A replication factor of null is that of the topic."""

    partitions: Int32
    partitioner: Annotated[str, Meta(max_length=100)] = Partitioner.MURMUR2
    replication_factor: Int16 | None = None


class ResizePlan(msgspec.Struct):
    """What the controller says to it, and the command that does it. `resumes` says that one is
    under way which the command goes on with."""

    present: int
    partitions: int
    replication_factor: int
    partitioner: str
    resumes: bool
    old_is_kept: bool
    command: str


class Partitioners(msgspec.Struct):
    names: list[str]


def _name(call: Call) -> str:
    name = call.path["name"]
    names.validate(name)
    return name


async def _rename(call: Call, *, validate_only: bool) -> Renamed:
    form: Renaming = call.body
    name = _name(call)
    try:
        done = await call.admin.rename_topic(name, form.new_name, validate_only=validate_only)
    except KafkaError as error:
        is_of_name = error.code in (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
        raise from_exception(error, "new_name" if is_of_name else None) or error from None
    if done is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NOT_OTTLAS)
    return Renamed(form.new_name, done.group_ids, done.acls)


async def rename(call: Call) -> Renamed:
    done = await _rename(call, validate_only=False)
    await fresh_picture(call.access)
    return done


async def check_rename(call: Call) -> Renamed:
    return await _rename(call, validate_only=True)


def _rename_commands(call: Call) -> Sequence[str]:
    words = commands.arguments(_name(call), call.body.new_name)
    return [commands.ottla(call.settings, "rename", *words)]


async def resizes(call: Call) -> Resizes:
    try:
        found = await call.admin.resizes()
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return Resizes(False, [])
        raise
    return Resizes(True, [_told(one) for one in sorted(found, key=lambda one: one.topic)])


def _told(one: ResizeState) -> Resize:
    return Resize(
        one.topic,
        one.shadow,
        one.partitions,
        one.replication_factor,
        one.partitioner,
        one.phase,
        one.begun_ms,
    )


async def plan(call: Call) -> ResizePlan:
    """The controller is asked, and nothing is begun."""
    wanted: ResizeQuery = call.query
    name = _name(call)
    try:
        begun = await call.admin.begin_resize(
            name,
            wanted.partitions,
            replication_factor=wanted.replication_factor or -1,
            partitioner=wanted.partitioner,
            validate_only=True,
        )
    except KafkaError as error:
        raise from_exception(error, _FIELDS.get(error.code)) or error from None
    return ResizePlan(
        begun.old_partitions,
        wanted.partitions,
        begun.replication_factor,
        wanted.partitioner,
        begun.is_resumed,
        begun.retention_ms != 0,
        _resize_command(call, name, wanted),
    )


def _resize_command(call: Call, name: str, wanted: ResizeQuery) -> str:
    words: list[object] = ["--partitions", wanted.partitions]
    words += ["--partitioner", wanted.partitioner]
    if wanted.replication_factor is not None:
        words += ["--replication-factor", wanted.replication_factor]
    return commands.ottla(call.settings, "resize", *words, *commands.arguments(name))


async def partitioners(_: Call) -> Partitioners:
    return Partitioners([str(one) for one in Partitioner])


async def abort(call: Call) -> Resize:
    found = await _under_way(call)
    await call.admin.abort_resize(_name(call))
    await fresh_picture(call.access)
    return found


async def _under_way(call: Call) -> Resize:
    name = _name(call)
    for one in await call.admin.resizes(name):
        if one.topic == name:
            return _told(one)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is not being resized.")


def _abort_commands(call: Call) -> Sequence[str]:
    return [commands.ottla(call.settings, "resize", "--abort", *commands.arguments(_name(call)))]


ROUTES: list[Any] = [
    Route(
        "POST", "/topics/{name}/name", rename, "Give it another name", body=Renaming,
        answer=Renamed, commands=_rename_commands, preview=check_rename,
    ),
    Route("GET", "/resizes", resizes, "Resizes that are under way", answer=Resizes),
    Route("GET", "/partitioners", partitioners, "Ways to place keys", answer=Partitioners),
    Route(
        "GET", "/topics/{name}/resize", plan, "What a resize would do, and its command",
        query=ResizeQuery, answer=ResizePlan,
    ),
    Route(
        "DELETE", "/topics/{name}/resize", abort, "Give up a resize that is under way",
        answer=Resize, commands=_abort_commands, preview=_under_way,
    ),
]  # fmt: skip
FEEDS: list[Any] = []
