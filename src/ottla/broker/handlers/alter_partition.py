"""AlterPartition (56), version 0: AlterIsr of Kafka 2.8 (KIP-497); sent by partition leaders.

Behaviour: the controller writes the in-sync set that a leader proposes and answers the state that
then holds; a broker that is not the controller answers NOT_CONTROLLER.
Versions: only 0 is advertised, so that a 3.x peer sends topic names and no recovery state.
Left out: versions 1 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.AlterPartitionRequest) -> m.AlterPartitionResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    controller = ctx.services.controller
    if not controller.is_active:
        return m.AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return await controller.alter_isr(request)
