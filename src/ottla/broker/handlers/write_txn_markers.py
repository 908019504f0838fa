"""WriteTxnMarkers (27), versions 0 to 1.

Behaviour: a transaction coordinator has the ends of transactions written to partitions that this
broker leads; answered when the in-sync replicas have them. A marker in `__consumer_offsets` makes
the offsets of its transaction show, or drops them. An older coordinator than the last one is
TRANSACTION_COORDINATOR_FENCED, an older producer epoch INVALID_PRODUCER_EPOCH.
Versions: 1 is flexible and otherwise the same.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.markers import MarkerOrder
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.WriteTxnMarkersRequest
) -> m.WriteTxnMarkersResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    orders = [
        MarkerOrder(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            frozenset(
                TopicPartition(topic.name, partition)
                for topic in marker.topics
                for partition in topic.partition_indexes
            ),
        )
        async for marker in ctx.turns.each(request.markers)
    ]
    answers = await _write(ctx, orders)
    response = m.WriteTxnMarkersResponse
    return response(
        markers=[
            response.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    response.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            response.WritableTxnMarkerPartitionResult(
                                partition_index=partition,
                                error_code=errors[TopicPartition(topic.name, partition)],
                            )
                            async for partition in ctx.turns.each(topic.partition_indexes)
                        ],
                    )
                    async for topic in ctx.turns.each(marker.topics)
                ],
            )
            async for marker, errors in ctx.turns.each(zip(request.markers, answers, strict=True))
            if errors
        ]
    )


async def _write(
    ctx: RequestContext, orders: list[MarkerOrder]
) -> list[dict[TopicPartition, ErrorCode]]:
    """One answer per order. No log takes a marker of nobody (MemoryRecordsBuilder)."""
    written = iter(await ctx.services.marker_writes.write(list(filter(_has_producer, orders))))
    return [
        next(written)
        if _has_producer(order)
        else dict.fromkeys(order.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        for order in orders
    ]


def _has_producer(order: MarkerOrder) -> bool:
    return order.producer_id >= 0 and order.producer_epoch >= 0
