"""JoinGroup (11), versions 0 to 9.

Behaviour: answers when the rebalance is complete, so other requests of the same connection wait
behind it. The leader's answer holds every member's metadata, the others' none.
Versions: 0 has one time-out for session and rebalance; from 4 on a dynamic member without an id
gets one with MEMBER_ID_REQUIRED first (KIP-394); 5 has static members (KIP-345); 7 echoes the
protocol type and allows a null protocol name; 8 carries a reason, which is logged; 9 tells a
returning static leader to keep the assignment (SkipAssignment, KIP-814).
Left out: nothing of the classic protocol; KIP-848 groups are another API.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.groups.rebalance import JoinRequest
from ottla.security.rights import Operation, require_group
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

logger = logging.getLogger(__name__)


async def handle(ctx: RequestContext, request: m.JoinGroupRequest) -> m.JoinGroupResponse:
    require_group(ctx, Operation.READ, request.group_id)
    version = ctx.version
    if request.reason:
        logger.info(
            "Member %r joins %s: %s", request.member_id, request.group_id, request.reason[:255]
        )
    # A name that is given twice counts once (ADR 8).
    protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    result = await ctx.services.groups.join(
        request.group_id,
        JoinRequest(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            new_member_id="",
            client_id=ctx.header.client_id or "",
            client_host=f"/{ctx.client_host}",  # as Java prints an address; stored and shown
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms
            ),
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(protocols.items()),
            require_known_member_id=version >= 4 and request.group_instance_id is None,
            can_skip_assignment=version >= 9,
        ),
    )
    protocol_name = result.protocol_name
    return m.JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name if version >= 7 else protocol_name or "",
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            m.JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )
