"""ListPartitionReassignments (46), version 0 (KIP-455).

Behaviour: the controller lists the moves under way, of the named partitions or of all (null).
Elsewhere NOT_CONTROLLER.
Versions: only 0.
Left out: nothing; timeout_ms is not used, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import pieces
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.metadata.znodes import ReplicaAssignment


async def handle(
    ctx: RequestContext, request: m.ListPartitionReassignmentsRequest
) -> m.ListPartitionReassignmentsResponse:
    require_cluster(ctx, Operation.DESCRIBE)
    response = m.ListPartitionReassignmentsResponse
    asked = (
        None
        if request.topics is None
        else [
            TopicPartition(topic.name, index)
            async for topic in ctx.turns.each(request.topics)
            async for index in ctx.turns.each(topic.partition_indexes)
        ]
    )
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    for some in (None,) if asked is None else pieces(list(dict.fromkeys(asked))):
        found = await ctx.services.controller.list_partition_reassignments(some)
        if found is None:
            refused = ErrorCode.NOT_CONTROLLER
            return response(error_code=refused, error_message=refused.text)
        moves.update(found)
    topics: dict[str, list[m.ListPartitionReassignmentsResponse.OngoingPartitionReassignment]] = {}
    async for tp, move in ctx.turns.each(moves.items()):
        topics.setdefault(tp.topic, []).append(
            response.OngoingPartitionReassignment(
                partition_index=tp.partition,
                replicas=list(move.replicas),
                adding_replicas=list(move.adding),
                removing_replicas=list(move.removing),
            )
        )
    return response(
        topics=[
            response.OngoingTopicReassignment(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
