"""UpdateMetadata (6), versions 0 to 8; sent by the controller.

Behaviour: brokers and partitions go into the metadata cache, which then wakes delayed topic
operations. A request for an older life of this broker gets STALE_BROKER_EPOCH (KIP-380), one from
a controller that was replaced STALE_CONTROLLER_EPOCH.
Versions: 0 to 4 list partitions without grouping by topic; 7 has topic ids; 8 (KRaft migration)
adds fields that are not used.
Left out: nothing that a controller of inter.broker.protocol.version 2.8 sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.membership.metadata_cache import LEADER_DURING_DELETE
from ottla.broker.replication.order_log import Sender
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.UpdateMetadataRequest) -> m.UpdateMetadataResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    orders = ctx.services.orders
    sender = Sender(request.controller_id, request.controller_epoch, ctx.header.correlation_id)
    error = orders.epochs.refusal(request.broker_epoch, request.controller_epoch)
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        orders.log.metadata_from_old_controller(sender, orders.epochs.controller_epoch)
    if error is not ErrorCode.NONE:
        return m.UpdateMetadataResponse(error_code=error)
    ctx.services.metadata_cache.update(request)
    states = [s for topic in request.topic_states for s in topic.partition_states]
    states += request.ungrouped_partition_states
    if states:
        deleted = sum(state.leader == LEADER_DURING_DELETE for state in states)
        orders.log.metadata(sender, len(states) - deleted, deleted)
    return m.UpdateMetadataResponse()
