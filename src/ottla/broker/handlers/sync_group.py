"""SyncGroup (14), versions 0 to 5.

Behaviour: waits until the leader's assignment is stored, then answers with the caller's part.
Versions: 3 has static members (KIP-345); from 5 on the protocol type and name must be given, must
be the group's (INCONSISTENT_GROUP_PROTOCOL) and are echoed (KIP-559).
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups.rebalance import SyncRequest
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_group
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.SyncGroupRequest) -> m.SyncGroupResponse:
    require_group(ctx, Operation.READ, request.group_id)
    if ctx.version >= 5 and None in (request.protocol_type, request.protocol_name):
        return m.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    result = await ctx.services.groups.sync(
        request.group_id,
        SyncRequest(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {each.member_id: each.assignment for each in request.assignments},
        ),
    )
    return m.SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
