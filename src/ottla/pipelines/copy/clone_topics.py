"""The target of a clone: made like the source, and given the source's configs when all is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.types import ConfigEdit, ConfigResource, NewTopic, raise_first_error
from ottla.config.definitions import ConfigSource
from ottla.config.resources import ConfigOperation
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines import topics
from ottla.pipelines.copy.ends import CopyError
from ottla.types import format_topic_id

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.types import ConfigItem, TopicDescription

# While records are copied nothing may take them away, and their times are their own. A name that
# the brokers do not have is left out: before/after came with Kafka 3.6, difference went with 4.0.
_NEVER = str((1 << 63) - 1)
MEANWHILE = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.difference.max.ms": _NEVER,
    "message.timestamp.before.max.ms": _NEVER,
    "message.timestamp.after.max.ms": _NEVER,
}
# These speak of the source's own replicas and partitions.
_NOT_COPIED = frozenset(
    {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "ottla.key.guard",
    }
)
_OF_CONFIGS = frozenset(
    {ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION}
)


class TopicFacts(NamedTuple):
    """A topic as it is; `configs` are those of its own, without defaults."""

    topic_id: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    known_names: frozenset[str]
    holds_records: bool


# A broker hears of a topic some milliseconds after the controller has made it.
_NOT_HEARD_OF = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
_HEARSAY_TRIES = 20
_HEARSAY_PAUSE_S = 0.1


async def look_twice(admin: Admin, name: str) -> TopicFacts | None:
    """As `look`, for a topic that should be there: None only where a broker has not heard of it
    for two seconds."""
    for _ in range(_HEARSAY_TRIES):
        try:
            facts = await look(admin, name)
        except KafkaError as error:
            if error.code not in _NOT_HEARD_OF:
                raise
            facts = None
        if facts is not None:
            return facts
        await asyncio.sleep(_HEARSAY_PAUSE_S)
    return None


async def look(admin: Admin, name: str) -> TopicFacts | None:
    """None where there is no such topic."""
    described = (await topics.describe(admin, [name])).get(name)
    if described is None:
        return None
    if described.is_internal:
        raise CopyError(f"{name} is an internal topic: its records belong to the brokers")
    resource = ConfigResource.topic(name)
    items = raise_first_error(await admin.describe_configs([resource]))[resource]
    return TopicFacts(
        format_topic_id(described.topic_id),
        len(described.partitions),
        _replication_factor(described),
        own_configs(items),
        frozenset(item.name for item in items),
        await topics.holds_records(admin, described),
    )


def _replication_factor(topic: TopicDescription) -> int:
    return max(len(partition.replicas) for partition in topic.partitions)


def own_configs(items: Iterable[ConfigItem]) -> dict[str, str]:
    return {
        item.name: item.value
        for item in items
        if item.source is ConfigSource.TOPIC and item.value is not None
        if item.name not in _NOT_COPIED
    }


async def make(
    admin: Admin, name: str, partitions: int, replication_factor: int, *, dry_run: bool = False
) -> None:
    """Raises CopyError with the brokers' own words where they refuse."""
    wanted = NewTopic(name, partitions, replication_factor)
    answer = (await admin.create_topics([wanted], validate_only=dry_run))[name]
    if isinstance(answer, KafkaError):
        hint = ""
        if answer.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            hint = " (--replication-factor says another number)"
        raise CopyError(f"the topic {name} cannot be made: {answer}{hint}")


async def acceptable(
    admin: Admin, name: str, wanted: Mapping[str, str], known: frozenset[str]
) -> dict[str, str]:
    """Those that the brokers of a topic take: others may lack a name, or have narrower limits."""
    there = {key: value for key, value in wanted.items() if key in known}
    if not there or await _judged(admin, name, there) is None:
        return there
    return {k: v for k, v in there.items() if await _judged(admin, name, {k: v}) is None}


async def hold_back(
    admin: Admin, name: str, final: Mapping[str, str], known: frozenset[str]
) -> None:
    """What the topic has while records are copied."""
    await _alter(admin, name, {**final, **{k: v for k, v in MEANWHILE.items() if k in known}})


async def give_configs(
    admin: Admin, name: str, final: Mapping[str, str], known: frozenset[str]
) -> None:
    """What it has from then on."""
    wanted: dict[str, str | None] = {key: None for key in MEANWHILE if key in known}
    await _alter(admin, name, {**wanted, **final})


async def _judged(admin: Admin, name: str, wanted: Mapping[str, str]) -> KafkaError | None:
    """What the brokers have against it; raises what has nothing to do with the configs."""
    resource = ConfigResource.topic(name)
    edits = [ConfigEdit(key, value) for key, value in wanted.items()]
    answers = await admin.incremental_alter_configs({resource: edits}, validate_only=True)
    error = answers[resource]
    if error is None or error.code in _OF_CONFIGS:
        return error
    raise error


async def _alter(admin: Admin, name: str, wanted: Mapping[str, str | None]) -> None:
    resource = ConfigResource.topic(name)
    edits = [
        ConfigEdit(key, value, ConfigOperation.SET if value is not None else ConfigOperation.DELETE)
        for key, value in wanted.items()
    ]
    raise_first_error(await admin.incremental_alter_configs({resource: edits}))
