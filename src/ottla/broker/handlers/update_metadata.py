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
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

log = logging.getLogger("state.change.logger")


async def handle(ctx: RequestContext, request: m.UpdateMetadataRequest) -> m.UpdateMetadataResponse:
    services = ctx.services
    # -1 comes from versions that carry no epoch; a larger one from a registration still under way.
    if 0 <= request.broker_epoch < services.broker_epoch:
        log.info(
            "UpdateMetadata for broker epoch %d refused, the current one is %d",
            request.broker_epoch,
            services.broker_epoch,
        )
        return m.UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    if request.controller_epoch < services.controller_epoch:
        log.warning(
            "UpdateMetadata of controller %d with epoch %d refused, the latest epoch is %d",
            request.controller_id,
            request.controller_epoch,
            services.controller_epoch,
        )
        return m.UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    services.controller_epoch = request.controller_epoch
    services.metadata_cache.update(request)
    return m.UpdateMetadataResponse()
