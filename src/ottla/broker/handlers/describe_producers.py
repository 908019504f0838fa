"""DescribeProducers (61), version 0.

Behaviour: the producers that wrote to a partition lately, as any of its replicas knows them: epoch,
last sequence and time, and where an open transaction began (KIP-664).
Versions: one.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.topics import names
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.DescribeProducersRequest
) -> m.DescribeProducersResponse:
    refused = await refused_in_turns(
        ctx, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    # What is named twice is answered once (ADR 36).
    asked: dict[str, dict[int, None]] = {}
    async for topic in ctx.turns.each(request.topics):
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    response = m.DescribeProducersResponse
    return response(
        topics=[
            response.TopicResponse(
                name=name,
                partitions=[
                    _answer(ctx, TopicPartition(name, index), refused=name in refused)
                    async for index in ctx.turns.each(indexes)
                ],
            )
            async for name, indexes in ctx.turns.each(asked.items())
        ]
    )


def _answer(
    ctx: RequestContext, tp: TopicPartition, *, refused: bool
) -> m.DescribeProducersResponse.PartitionResponse:
    response = m.DescribeProducersResponse
    answer = response.PartitionResponse(partition_index=tp.partition)
    try:
        names.validate(tp.topic)
        if refused:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        log = ctx.services.replica_manager.partitions.require(tp).log
        if log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except KafkaError as error:
        answer.error_code = error.code
        answer.error_message = error.message
        return answer
    answer.active_producers = [
        response.ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_first_offset,
        )
        for producer_id, producer in log.producers.items()
    ]
    return answer
