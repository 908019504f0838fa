"""Heartbeat (12), versions 0 to 4.

Behaviour: keeps the member's session; REBALANCE_IN_PROGRESS asks it to join again. NONE while the
group is being loaded after a fail-over.
Versions: 3 has static members (KIP-345).
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.security.rights import Operation, require_group
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.HeartbeatRequest) -> m.HeartbeatResponse:
    require_group(ctx, Operation.READ, request.group_id)
    error = ctx.services.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return m.HeartbeatResponse(error_code=error)
