"""ControlledShutdown (7), versions 0 to 3; sent by a broker that is about to stop.

Behaviour: the controller moves leadership away from the broker and answers the partitions it still
leads; a broker that is not the controller answers STALE_CONTROLLER_EPOCH.
Versions: 0 has a header without client id; 2 adds the broker's epoch (KIP-380).
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.ControlledShutdownRequest
) -> m.ControlledShutdownResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    controller = ctx.services.controller
    if not controller.is_active:
        return m.ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    return await controller.controlled_shutdown(request)
