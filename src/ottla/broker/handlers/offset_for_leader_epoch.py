"""OffsetForLeaderEpoch (23), versions 0 to 4.

Behaviour: where an epoch ends in the leader's log (KIP-101, KIP-279): the largest epoch at or below
the one asked for and the start of the next; (-1, -1) where it is unknown.
Versions: v2 checks the current leader epoch (74, 75). v3 has the replica id, which is not needed.
Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import (
    Operation,
    ResourceType,
    allowed_on_cluster,
    refused_in_turns,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

    Part = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    Answer = m.OffsetForLeaderEpochResponse.EpochEndOffset


async def handle(
    ctx: RequestContext, request: m.OffsetForLeaderEpochRequest
) -> m.OffsetForLeaderEpochResponse:
    response = m.OffsetForLeaderEpochResponse
    refused: Collection[str] = ()
    # Followers have the right of brokers; consumers look for truncation with it (KIP-320).
    if not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION, log_denied=False):
        topics = (topic.topic for topic in request.topics)
        refused = await refused_in_turns(ctx, Operation.DESCRIBE, ResourceType.TOPIC, topics)
    return response(
        topics=[
            response.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _answer(
                        ctx,
                        TopicPartition(topic.topic, part.partition),
                        part,
                        refused=topic.topic in refused,
                    )
                    async for part in ctx.turns.each(topic.partitions)
                ],
            )
            async for topic in ctx.turns.each(request.topics)
        ]
    )


def _answer(ctx: RequestContext, tp: TopicPartition, part: Part, *, refused: bool) -> Answer:
    answer = m.OffsetForLeaderEpochResponse.EpochEndOffset(
        partition=part.partition, leader_epoch=-1, end_offset=-1
    )
    if refused:
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer
    try:
        partition = ctx.services.replica_manager.partitions.require(tp)
        partition.local_log(part.current_leader_epoch, require_leader=True)
        answer.leader_epoch, answer.end_offset = partition.epoch_end(part.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
