"""StopReplica (5), versions 0 to 4.

Behaviour: stops replicas and deletes their logs where asked. A leader epoch at or below the
current one gives 74 unless it is -1 or -2. Stale broker or controller epochs (77, 11) are answered
at the top with no partitions.
Versions: 0 to 2 have one delete flag for all and no leader epochs; v3 has both per partition. v4
adds the KRaft flag, which is not used.
Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.replication.controller_orders import NO_EPOCH, Stop
from ottla.broker.replication.order_log import Sender
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_STATES_BY_TOPIC = 3


async def handle(ctx: RequestContext, request: m.StopReplicaRequest) -> m.StopReplicaResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    orders = ctx.services.orders
    response = m.StopReplicaResponse
    stops = list(_stops(request, ctx.version))
    sender = Sender(request.controller_id, request.controller_epoch, ctx.header.correlation_id)
    orders.log.handling("StopReplica", sender, len(stops))
    error = orders.epochs.refusal(request.broker_epoch, request.controller_epoch)
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        orders.log.old_controller("StopReplica", sender, orders.epochs.controller_epoch)
    if error is not ErrorCode.NONE:
        orders.log.flush()
        return response(error_code=error)
    errors = [(stop.tp, orders.stop(stop, sender)) for stop in stops]
    orders.log.flush()
    return response(
        partition_errors=[
            response.StopReplicaPartitionError(
                topic_name=tp.topic, partition_index=tp.partition, error_code=error
            )
            for tp, error in errors
        ]
    )


def _stops(request: m.StopReplicaRequest, version: int) -> Iterator[Stop]:
    delete = request.delete_partitions
    if version >= _STATES_BY_TOPIC:
        for state in request.topic_states:
            for part in state.partition_states:
                tp = TopicPartition(state.topic_name, part.partition_index)
                yield Stop(tp, part.leader_epoch, part.delete_partition)
    elif version >= 1:
        for topic in request.topics:
            for index in topic.partition_indexes:
                yield Stop(TopicPartition(topic.name, index), NO_EPOCH, delete)
    else:
        for item in request.ungrouped_partitions:
            yield Stop(TopicPartition(item.topic_name, item.partition_index), NO_EPOCH, delete)
