"""UpdateMetadata (6), versions 0 to 8; sent by the controller.

Behaviour: brokers and partitions go into the metadata cache, which then wakes delayed topic
operations. A request for an older life of this broker gets STALE_BROKER_EPOCH (KIP-380), one from
a controller that was replaced STALE_CONTROLLER_EPOCH.
Versions: 0 to 4 list partitions without grouping by topic; 7 has topic ids; 8 (KRaft migration)
adds fields that are not used.
Left out: nothing that a controller of inter.broker.protocol.version 2.8 sends.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_state_changes = logging.getLogger("state.change.logger")


async def handle(ctx: RequestContext, request: m.UpdateMetadataRequest) -> m.UpdateMetadataResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    error = ctx.services.orders.epochs.refusal(request.broker_epoch, request.controller_epoch)
    if error is not ErrorCode.NONE:
        _state_changes.warning(
            "UpdateMetadata of controller %d with epoch %d for broker epoch %d refused: %s",
            request.controller_id,
            request.controller_epoch,
            request.broker_epoch,
            error.name,
        )
        return m.UpdateMetadataResponse(error_code=error)
    ctx.services.metadata_cache.update(request)
    return m.UpdateMetadataResponse()
