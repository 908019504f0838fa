"""LeaderAndIsr (4), versions 0 to 7.

Behaviour: the controller's orders to lead or follow, carried out at once; per-partition codes as in
Kafka 2.8 (broker/replica_roles.py). A stale broker epoch gives 77, a stale controller epoch 11,
both at the top and for every partition.
Versions: 0 and 1 name the topic in every partition, 2 to 4 group by name, from 5 on answers are
grouped by topic id. v6 adds the recovery state, v7 the KRaft flag; both are not used.
Left out: the type field (full or incremental): partitions that a full request does not name stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, allowed_on_cluster
from ottla.broker.replica_request_epochs import refusal
from ottla.broker.replica_roles import create_logs_ahead, refuse_leader_and_isr
from ottla.errors import ErrorCode
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext


async def handle(ctx: RequestContext, request: m.LeaderAndIsrRequest) -> m.LeaderAndIsrResponse:
    if not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION):
        return refuse_leader_and_isr(request, ctx.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = refusal(ctx.services, request.broker_epoch, request.controller_epoch)
    if error is not ErrorCode.NONE:
        return refuse_leader_and_isr(request, ctx.version, error)
    manager = ctx.services.replica_manager
    await create_logs_ahead(manager, request)
    if request.controller_epoch < ctx.services.controller_epoch:
        # A newer controller spoke up while the logs were made.
        return refuse_leader_and_isr(request, ctx.version, ErrorCode.STALE_CONTROLLER_EPOCH)
    return manager.become_leader_or_follower(request, ctx.version)
