"""OffsetDelete (47), version 0.

Behaviour: forgets offsets of a group that has no members, or of topics that no member of a
consumer group subscribes to (GROUP_SUBSCRIBED_TO_TOPIC otherwise); KIP-496. Partitions that do
not exist: UNKNOWN_TOPIC_OR_PARTITION.
Versions: one.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.offset_answers import by_topic
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


async def handle(ctx: RequestContext, request: m.OffsetDeleteRequest) -> m.OffsetDeleteResponse:
    require_group(ctx, Operation.DELETE, request.group_id)
    refused = await refused_in_turns(
        ctx, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    cache = ctx.services.metadata_cache
    asked = [
        TopicPartition(topic.name, each.partition_index)
        async for topic in ctx.turns.each(request.topics)
        async for each in ctx.turns.each(topic.partitions)
    ]
    error, errors = await ctx.services.groups.offsets.delete(
        request.group_id,
        [
            tp
            async for tp in ctx.turns.each(dict.fromkeys(asked))
            if tp.topic not in refused and cache.contains(tp)
        ],
    )
    if error is not ErrorCode.NONE:
        return m.OffsetDeleteResponse(error_code=error)
    answer = m.OffsetDeleteResponse
    return answer(
        topics=await by_topic(
            ctx.turns,
            request.topics,
            errors,
            refused,
            answer.OffsetDeleteResponseTopic,
            answer.OffsetDeleteResponsePartition,
        )
    )
