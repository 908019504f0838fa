"""AlterPartitionReassignments (45), version 0 (KIP-455).

Behaviour: the controller starts to move partitions to the named replicas, or takes a running move
back where they are null; the newest wish counts. The answer says which moves were accepted, not
that they are done. Elsewhere NOT_CONTROLLER.
Versions: only 0.
Left out: nothing; timeout_ms is not used, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import pieces_of_mapping
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, require_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.AlterPartitionReassignmentsRequest
) -> m.AlterPartitionReassignmentsResponse:
    require_cluster(ctx, Operation.ALTER)
    response = m.AlterPartitionReassignmentsResponse
    targets = {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else tuple(partition.replicas)
        async for topic in ctx.turns.each(request.topics)
        async for partition in ctx.turns.each(topic.partitions)
    }
    outcomes: dict[TopicPartition, KafkaError | None] = {}
    for some in pieces_of_mapping(targets):
        found = await ctx.services.controller.alter_partition_reassignments(some)
        if found is None:
            refused = ErrorCode.NOT_CONTROLLER
            return response(error_code=refused, error_message=refused.text)
        outcomes.update(found)
    topics: dict[str, list[m.AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]]
    topics = {}
    async for tp in ctx.turns.each(targets):
        error = outcomes[tp]
        topics.setdefault(tp.topic, []).append(
            response.ReassignablePartitionResponse(
                partition_index=tp.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else str(error),
            )
        )
    return response(
        responses=[
            response.ReassignableTopicResponse(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )
