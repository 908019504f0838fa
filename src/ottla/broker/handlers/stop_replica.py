"""StopReplica (5), versions 0 to 4.

Behaviour: stops replicas and deletes their logs where asked. A leader epoch at or below the
current one gives 74 unless it is -1 or -2. Stale broker or controller epochs (77, 11) are answered
at the top with no partitions.
Versions: 0 to 2 have one delete flag for all and no leader epochs; v3 has both per partition. v4
adds the KRaft flag, which is not used.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replication.request_epochs import refusal
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.StopReplicaRequest) -> m.StopReplicaResponse:
    require_cluster(ctx, Operation.CLUSTER_ACTION)
    error = refusal(ctx.services, request.broker_epoch, request.controller_epoch)
    if error is not ErrorCode.NONE:
        return m.StopReplicaResponse(error_code=error)
    return ctx.services.replica_manager.stop_replicas(request, ctx.version)
