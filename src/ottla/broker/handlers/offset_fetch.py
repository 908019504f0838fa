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
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.answers import FetchedOffset
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed, refused_names
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

    Wanted = Sequence[
        m.OffsetFetchRequest.OffsetFetchRequestTopic | m.OffsetFetchRequest.OffsetFetchRequestTopics
    ]
    Found = dict[TopicPartition, FetchedOffset]


async def handle(ctx: RequestContext, request: m.OffsetFetchRequest) -> m.OffsetFetchResponse:
    response = m.OffsetFetchResponse
    if ctx.version < 8:
        error, found = _fetch(ctx, request.group_id, request.topics, request.require_stable)
        if error is not ErrorCode.NONE and ctx.version < 2:
            found = dict.fromkeys(_partitions(request.topics or ()), FetchedOffset(error, None))
        topic, partition = response.OffsetFetchResponseTopic, response.OffsetFetchResponsePartition
        return response(error_code=error, topics=_topics(found, topic, partition))
    return response(
        groups=[_group_response(ctx, group, request.require_stable) for group in request.groups]
    )


def _group_response(
    ctx: RequestContext,
    group: m.OffsetFetchRequest.OffsetFetchRequestGroup,
    require_stable: bool,
) -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
    error, found = _fetch(ctx, group.group_id, group.topics, require_stable)
    response = m.OffsetFetchResponse
    return response.OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=error,
        topics=_topics(
            found, response.OffsetFetchResponseTopics, response.OffsetFetchResponsePartitions
        ),
    )


def _fetch(
    ctx: RequestContext, group_id: str, topics: Wanted | None, require_stable: bool
) -> tuple[ErrorCode, Found]:
    if not allowed(ctx, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
    partitions = None if topics is None else _partitions(topics)
    if ctx.authorizer is None:
        return ctx.services.groups.offsets.fetch(
            group_id, partitions, require_stable=require_stable
        )
    return _fetch_visible(ctx, group_id, partitions, require_stable)


def _fetch_visible(
    ctx: RequestContext,
    group_id: str,
    partitions: list[TopicPartition] | None,
    require_stable: bool,
) -> tuple[ErrorCode, Found]:
    """Topics without DESCRIBE are an error where they are asked for and left out of all."""
    offsets = ctx.services.groups.offsets
    if partitions is None:
        error, found = offsets.fetch(group_id, None, require_stable=require_stable)
        hidden = refused_names(
            ctx, Operation.DESCRIBE, ResourceType.TOPIC, (tp.topic for tp in found)
        )
        return error, {tp: offset for tp, offset in found.items() if tp.topic not in hidden}
    hidden = refused_names(
        ctx, Operation.DESCRIBE, ResourceType.TOPIC, (tp.topic for tp in partitions)
    )
    visible = [tp for tp in partitions if tp.topic not in hidden]
    error, found = offsets.fetch(group_id, visible, require_stable=require_stable)
    if error is ErrorCode.NONE:
        refused = FetchedOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        found = found | {tp: refused for tp in partitions if tp.topic in hidden}
    return error, found


def _partitions(topics: Wanted) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition)
        for topic in topics
        for partition in topic.partition_indexes
    ]


def _topics(found: Found, topic_class: Any, partition_class: Any) -> list[Any]:
    """The same content in either form: the schema names the structs of version 8 anew."""
    topics: dict[str, list[Any]] = {}
    for tp, fetched in found.items():
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
