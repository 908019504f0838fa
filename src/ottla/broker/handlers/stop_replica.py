"""StopReplica (5), versions 0 to 4.

Behaviour: stops replicas and deletes their logs where asked; a log is known to be gone for good
before that is answered. Logs of a topic that is kept go into the trash instead (ADR 50). A log of
another topic of that name, whose end nobody asked for, is set aside (56 where the store cannot be
asked whose it is). A leader epoch at or below the current one gives 74 unless it is -1 or -2. Stale
broker or controller epochs (77, 11) are answered at the top with no partitions.
Versions: 0 to 2 have one delete flag for all and no leader epochs; v3 has both per partition. v4
adds the KRaft flag, which is not used.
Left out: nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.context import order_checks
from ottla.broker.replication.controller_orders import NO_EPOCH, Stop
from ottla.broker.replication.order_log import Sender
from ottla.errors import ErrorCode
from ottla.metadata.store import StoreError
from ottla.security.rights import Operation, require_cluster
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.context.services import BrokerServices

logger = logging.getLogger(__name__)
_STATES_BY_TOPIC = 3


async def handle(ctx: RequestContext, request: m.StopReplicaRequest) -> m.StopReplicaResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    orders = ctx.services.orders
    response = m.StopReplicaResponse
    stops = list(_stops(request, ctx.version))
    sender = Sender(request.controller_id, request.controller_epoch, ctx.header.correlation_id)
    orders.log.handling("StopReplica", sender, len(stops))
    error = await order_checks.refusal(ctx, request)
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        orders.log.old_controller("StopReplica", sender, orders.epochs.controller_epoch)
    if error is not ErrorCode.NONE:
        orders.log.flush()
        return response(error_code=error)
    to_keep = await _spare(ctx.services, stops)
    error = order_checks.refusal_by_now(ctx, request)
    unkept: set[TopicPartition] = set()
    if to_keep and error is ErrorCode.NONE:
        unkept = await ctx.services.stale_logs.trash.keep(to_keep)
        error = order_checks.refusal_by_now(ctx, request)
    if error is not ErrorCode.NONE:
        orders.log.flush()
        return response(error_code=error)
    codes = []
    for stop in stops:
        if stop.delete and (to_keep is None or stop.tp in unkept):
            codes.append(ErrorCode.KAFKA_STORAGE_ERROR)
        elif stop.delete and to_keep is not None and stop.tp in to_keep:
            codes.append(ErrorCode.NONE)
        else:
            codes.append(orders.stop(stop, sender))
    orders.log.flush()
    if not await ctx.services.replica_manager.log_manager.removals.make_durable():
        codes = [
            ErrorCode.KAFKA_STORAGE_ERROR if stop.delete else code
            for stop, code in zip(stops, codes, strict=True)
        ]
    return response(
        partition_errors=[
            response.StopReplicaPartitionError(
                topic_name=stop.tp.topic, partition_index=stop.tp.partition, error_code=code
            )
            for stop, code in zip(stops, codes, strict=True)
        ]
    )


async def _spare(services: BrokerServices, stops: list[Stop]) -> set[TopicPartition] | None:
    """The request names topics without their ids, and does not tell those that are kept. Returns
    the logs of the latter; None where the store cannot be asked."""
    logs = services.replica_manager.log_manager
    deleted = {
        stop.tp
        for stop in stops
        if stop.delete and (log := logs.get(stop.tp)) and log.topic_id != ZERO_TOPIC_ID
    }
    topics = {tp.topic for tp in deleted}
    try:
        await services.stale_logs.spare_other_lives(topics)
        return await services.stale_logs.trash.to_keep(deleted)
    except StoreError as error:
        logger.warning("logs of %s stay: %r", ", ".join(sorted(topics)), error)
        return None


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
