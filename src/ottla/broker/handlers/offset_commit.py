"""OffsetCommit (8), versions 0 to 9.

Behaviour: stores the offsets of the partitions that exist in `__consumer_offsets` (others:
UNKNOWN_TOPIC_OR_PARTITION) and answers once they are replicated. A generation below 0 is a
consumer without group management, which may commit while the group has no members.
Versions: 0 has no member and no generation; 1 carries a time per partition; 2 to 4 a retention
time for all; 6 the leader epoch; 7 static members; 9 differs from 8 for KIP-848 groups alone.
Left out: version 0 does not go to ZooKeeper as in Apache Kafka, but is stored like the others.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.context.offset_answers import by_topic
from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset
from ottla.errors import ErrorCode
from ottla.security.rights import (
    Operation,
    ResourceType,
    refused_in_turns,
    require_group,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_NOT_GIVEN = -1
_LONG_RANGE = 1 << 64


async def handle(ctx: RequestContext, request: m.OffsetCommitRequest) -> m.OffsetCommitResponse:
    require_group(ctx, Operation.READ, request.group_id)
    refused = await refused_in_turns(
        ctx, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    commits = await _known_commits(ctx, request, refused)
    errors: dict[TopicPartition, ErrorCode] = {}
    if commits:
        committer = Committer(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
        )
        errors = await ctx.services.groups.offsets.commit(request.group_id, committer, commits)
    answer = m.OffsetCommitResponse
    return answer(
        topics=await by_topic(
            ctx.turns,
            request.topics,
            errors,
            refused,
            answer.OffsetCommitResponseTopic,
            answer.OffsetCommitResponsePartition,
        )
    )


async def _known_commits(
    ctx: RequestContext, request: m.OffsetCommitRequest, refused: Collection[str]
) -> dict[TopicPartition, CommittedOffset]:
    cache = ctx.services.metadata_cache
    now_ms = ctx.services.runtime.clock.now_ms()
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = None if retention_ms == _NOT_GIVEN else _java_sum(now_ms, retention_ms)
    commits = {}
    async for topic in ctx.turns.each(request.topics):
        async for each in ctx.turns.each(topic.partitions):
            tp = TopicPartition(topic.name, each.partition_index)
            if topic.name not in refused and cache.contains(tp):
                commits[tp] = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms if each.commit_timestamp == _NOT_GIVEN else each.commit_timestamp,
                    expire_timestamp_ms,
                )
    return commits


def _java_sum(left: int, right: int) -> int:
    """Of two longs: in Kafka a retention of hundreds of million years ends in the past."""
    return (left + right + _LONG_RANGE // 2) % _LONG_RANGE - _LONG_RANGE // 2
