"""AddPartitionsToTxn (24), versions 0 to 3.

Behaviour: the coordinator notes the partitions as part of the producer's transaction, which begins
with the first of them; only then does the producer write there. All or none: where one partition
is unknown or not allowed it gets its own error and the others OPERATION_NOT_ATTEMPTED.
Versions: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2.
Left out: versions 4 and 5, which are for brokers that verify transactions (KIP-890); a 3.x broker
that does not find them here appends without asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.coordinator import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed, refused_in_turns
from ottla.topics import names
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_OLDEST_WITH_FENCED = 2


async def handle(
    ctx: RequestContext, request: m.AddPartitionsToTxnRequest
) -> m.AddPartitionsToTxnResponse:
    transactional_id = request.v3_and_below_transactional_id
    partitions = [
        TopicPartition(topic.name, partition)
        async for topic in ctx.turns.each(request.v3_and_below_topics)
        async for partition in ctx.turns.each(topic.partitions)
    ]
    partitions = list(dict.fromkeys(partitions))
    if not allowed(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return await _response(ctx, request, dict.fromkeys(partitions, error))
    refused = await _objections(ctx, partitions)
    if refused:
        others = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return await _response(ctx, request, others | refused)
    error = await ctx.services.transactions.add_partitions(
        transactional_id,
        ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        partitions,
    )
    if error is ErrorCode.PRODUCER_FENCED and ctx.version < _OLDEST_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return await _response(ctx, request, dict.fromkeys(partitions, error))


async def _objections(
    ctx: RequestContext, partitions: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Partitions that no producer may have in a transaction, each with its reason."""
    refused_topics = await refused_in_turns(
        ctx, Operation.WRITE, ResourceType.TOPIC, (tp.topic for tp in partitions)
    )
    found = {}
    async for tp in ctx.turns.each(partitions):
        if tp.topic in refused_topics or names.is_internal(tp.topic):
            found[tp] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not ctx.services.metadata_cache.contains(tp):
            found[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found


async def _response(
    ctx: RequestContext,
    request: m.AddPartitionsToTxnRequest,
    errors: dict[TopicPartition, ErrorCode],
) -> m.AddPartitionsToTxnResponse:
    response = m.AddPartitionsToTxnResponse
    return response(
        results_by_topic_v3_and_below=[
            response.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    response.AddPartitionsToTxnPartitionResult(
                        partition_index=partition,
                        partition_error_code=errors[TopicPartition(topic.name, partition)],
                    )
                    async for partition in ctx.turns.each(topic.partitions)
                ],
            )
            async for topic in ctx.turns.each(request.v3_and_below_topics)
        ]
    )
