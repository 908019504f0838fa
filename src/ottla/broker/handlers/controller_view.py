"""ControllerView (20002), version 0: Ottla's own, not known to Apache Kafka (ADR 41).

Behaviour: what the active controller has in its head: how many partitions and replicas are in
which state, every legal transition with how often it was taken since the election, the event queue,
and the events of its journal after a sequence number (`Since`; below 0: none), of one topic where
`Topic` is given, at most `Limit`. NOT_CONTROLLER elsewhere. Not queued behind other events: a
controller that is stuck can still be looked at.
Versions: one.
Rights: DESCRIBE on the cluster.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.ControllerViewRequest) -> m.ControllerViewResponse:
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        return m.ControllerViewResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return ctx.services.controller.view(request)
