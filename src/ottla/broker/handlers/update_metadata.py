"""UpdateMetadata (6), versions 0 to 8; sent by the controller.

Behaviour: brokers and partitions go into the metadata cache, which then wakes delayed topic
operations. A request for an older life of this broker gets STALE_BROKER_EPOCH (KIP-380), one from
a controller that was replaced STALE_CONTROLLER_EPOCH. What no topic or partition can be called is
left out.
Versions: 0 to 4 list partitions without grouping by topic; 7 has topic ids; 8 (KRaft migration)
adds fields that are not used.
Left out: nothing that a controller of inter.broker.protocol.version 2.8 sends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.context import order_checks
from ottla.broker.membership.metadata_cache import LEADER_DURING_DELETE
from ottla.broker.replication.order_log import Sender
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.storage.manager import folder_names
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

logger = logging.getLogger(__name__)
_MAX_NAMES_IN_LINE = 10


async def handle(ctx: RequestContext, request: m.UpdateMetadataRequest) -> m.UpdateMetadataResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    orders = ctx.services.orders
    sender = Sender(request.controller_id, request.controller_epoch, ctx.header.correlation_id)
    error = await order_checks.refusal(ctx, request)
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        orders.log.metadata_from_old_controller(sender, orders.epochs.controller_epoch)
    if error is not ErrorCode.NONE:
        return m.UpdateMetadataResponse(error_code=error)
    _drop_impossible(ctx, request)
    ctx.services.metadata_cache.update(request)
    states = [s for topic in request.topic_states for s in topic.partition_states]
    states += request.ungrouped_partition_states
    if states:
        deleted = sum(state.leader == LEADER_DURING_DELETE for state in states)
        orders.log.metadata(sender, len(states) - deleted, deleted)
    return m.UpdateMetadataResponse()


def _drop_impossible(ctx: RequestContext, request: m.UpdateMetadataRequest) -> None:
    cache = ctx.services.metadata_cache
    strange: list[TopicPartition] = []

    def is_possible(topic: str, partition: int) -> bool:
        tp = TopicPartition(topic, partition)
        if cache.contains(tp) or folder_names.objection(tp) is None:
            return True
        strange.append(tp)
        return False

    for state in request.topic_states:
        state.partition_states = [
            each
            for each in state.partition_states
            if is_possible(state.topic_name, each.partition_index)
        ]
    request.topic_states = [state for state in request.topic_states if state.partition_states]
    request.ungrouped_partition_states = [
        each
        for each in request.ungrouped_partition_states
        if is_possible(each.topic_name, each.partition_index)
    ]
    if strange:
        shown = ", ".join(map(str, strange[:_MAX_NAMES_IN_LINE]))
        logger.warning("the controller tells of %d impossible partitions: %s", len(strange), shown)
