"""OffsetFetch (9), versions 0 to 9.

Behaviour: the committed offsets of a group; where nothing was committed the offset is -1 and the
metadata empty, without an error, even for an unknown group.
Versions: before 2 a group's error stands on every partition; from 2 on it stands at the top and
null topics mean all; from 7 on RequireStable holds back offsets with a commit under way
(UNSTABLE_OFFSET_COMMIT, KIP-447); from 8 on many groups are asked for, each with its own error
(KIP-709); the member fields of 9 mean nothing to classic groups.
Left out: version 0 does not read ZooKeeper as in Apache Kafka, but the same offsets as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.answers import FetchedOffset
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed, refused_in_turns
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

    Wanted = Sequence[
        m.OffsetFetchRequest.OffsetFetchRequestTopic | m.OffsetFetchRequest.OffsetFetchRequestTopics
    ]
    Found = dict[TopicPartition, FetchedOffset]

_PARTITIONS_AT_A_TIME = 1000


async def handle(ctx: RequestContext, request: m.OffsetFetchRequest) -> m.OffsetFetchResponse:
    response = m.OffsetFetchResponse
    if ctx.version < 8:
        error, found = await _fetch(ctx, request.group_id, request.topics, request.require_stable)
        if error is not ErrorCode.NONE and ctx.version < 2:
            wanted = await _partitions(ctx, request.topics or ())
            found = dict.fromkeys(wanted, FetchedOffset(error, None))
        topic, partition = response.OffsetFetchResponseTopic, response.OffsetFetchResponsePartition
        return response(error_code=error, topics=await _topics(ctx, found, topic, partition))
    return response(
        groups=[
            await _group_response(ctx, group, request.require_stable)
            async for group in ctx.turns.each(_distinct(request.groups))
        ]
    )


def _distinct(
    groups: list[m.OffsetFetchRequest.OffsetFetchRequestGroup],
) -> list[m.OffsetFetchRequest.OffsetFetchRequestGroup]:
    """Everything that a group has is a long answer to a short question: it is given once, however
    often it is asked for (ADR 36)."""
    everything = {group.group_id: group for group in groups if group.topics is None}
    return [*everything.values(), *(group for group in groups if group.topics is not None)]


async def _group_response(
    ctx: RequestContext,
    group: m.OffsetFetchRequest.OffsetFetchRequestGroup,
    require_stable: bool,
) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
    error, found = await _fetch(ctx, group.group_id, group.topics, require_stable)
    response = m.OffsetFetchResponse
    return response.OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=error,
        topics=await _topics(
            ctx, found, response.OffsetFetchResponseTopics, response.OffsetFetchResponsePartitions
        ),
    )


async def _fetch(
    ctx: RequestContext, group_id: str, topics: Wanted | None, require_stable: bool
) -> tuple[ErrorCode, Found]:
    if not allowed(ctx, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
    partitions = None if topics is None else await _partitions(ctx, topics)
    if ctx.authorizer is None:
        return await _fetch_in_turns(ctx, group_id, partitions, require_stable)
    return await _fetch_visible(ctx, group_id, partitions, require_stable)


async def _fetch_in_turns(
    ctx: RequestContext,
    group_id: str,
    partitions: list[TopicPartition] | None,
    require_stable: bool,
) -> tuple[ErrorCode, Found]:
    """A part of the partitions at a time."""
    fetch = partial(ctx.services.groups.offsets.fetch, group_id, require_stable=require_stable)
    if partitions is None or len(partitions) <= _PARTITIONS_AT_A_TIME:
        return fetch(partitions)
    found: Found = {}
    async for start in ctx.turns.each(range(0, len(partitions), _PARTITIONS_AT_A_TIME)):
        error, part = fetch(partitions[start : start + _PARTITIONS_AT_A_TIME])
        if error is not ErrorCode.NONE:
            return error, {}
        found.update(part)
    return ErrorCode.NONE, found


async def _fetch_visible(
    ctx: RequestContext,
    group_id: str,
    partitions: list[TopicPartition] | None,
    require_stable: bool,
) -> tuple[ErrorCode, Found]:
    """Topics without DESCRIBE are an error where they are asked for and left out of all."""
    offsets = ctx.services.groups.offsets
    if partitions is None:
        error, found = offsets.fetch(group_id, None, require_stable=require_stable)
        hidden = await refused_in_turns(
            ctx, Operation.DESCRIBE, ResourceType.TOPIC, (tp.topic for tp in found)
        )
        return error, {tp: offset for tp, offset in found.items() if tp.topic not in hidden}
    hidden = await refused_in_turns(
        ctx, Operation.DESCRIBE, ResourceType.TOPIC, (tp.topic for tp in partitions)
    )
    visible = [tp for tp in partitions if tp.topic not in hidden]
    error, found = await _fetch_in_turns(ctx, group_id, visible, require_stable)
    if error is ErrorCode.NONE:
        refused = FetchedOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        found = found | {tp: refused for tp in partitions if tp.topic in hidden}
    return error, found


async def _partitions(ctx: RequestContext, topics: Wanted) -> list[TopicPartition]:
    listed = [
        TopicPartition(topic.name, partition)
        async for topic in ctx.turns.each(topics)
        async for partition in ctx.turns.each(topic.partition_indexes)
    ]
    return list(dict.fromkeys(listed))


async def _topics(
    ctx: RequestContext, found: Found, topic_class: Any, partition_class: Any
) -> list[Any]:
    """The same content in either form: the schema names the structs of version 8 anew."""
    topics: dict[str, list[Any]] = {}
    async for tp, fetched in ctx.turns.each(found.items()):
        commit = fetched.commit
        topics.setdefault(tp.topic, []).append(
            partition_class(
                partition_index=tp.partition,
                committed_offset=-1 if commit is None else commit.offset,
                committed_leader_epoch=-1 if commit is None else commit.leader_epoch,
                metadata="" if commit is None else commit.metadata,
                error_code=fetched.error,
            )
        )
    return [topic_class(name=name, partitions=each) for name, each in topics.items()]
