"""LeaveGroup (13), versions 0 to 5.

Behaviour: removes members at once, which starts a rebalance. Static members may be named by their
instance id alone.
Versions: 0 to 2 name one member and answer with one code; from 3 on many members, each with a code
of its own (KIP-345); 5 carries a reason, which is logged.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.groups.answers import LeavingMember
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_group
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_AT_A_TIME = 1000


async def handle(ctx: RequestContext, request: m.LeaveGroupRequest) -> m.LeaveGroupResponse:
    require_group(ctx, Operation.READ, request.group_id)
    groups = ctx.services.groups
    if ctx.version < 3:
        error, errors = groups.leave(request.group_id, [LeavingMember(request.member_id)])
        return m.LeaveGroupResponse(error_code=errors[0] if error is ErrorCode.NONE else error)
    leaving = [
        LeavingMember(member.member_id, member.group_instance_id, member.reason)
        for member in request.members
    ]
    error, errors = ErrorCode.NONE, []
    async for start in ctx.turns.each(range(0, max(1, len(leaving)), _AT_A_TIME)):
        error, some = groups.leave(request.group_id, leaving[start : start + _AT_A_TIME])
        if error is not ErrorCode.NONE:
            break
        errors += some
    return m.LeaveGroupResponse(
        error_code=error,
        members=[
            m.LeaveGroupResponse.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member_error,
            )
            async for member, member_error in ctx.turns.each(zip(leaving, errors, strict=False))
        ],
    )
