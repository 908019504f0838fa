"""DescribeGroups (15), versions 0 to 5.

Behaviour: state, protocol and members of each group; metadata and assignments only while it is
Stable. An unknown group is Dead, without an error.
Versions: 3 adds the authorized operations, 4 the instance ids.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import (
    NOT_ASKED_FOR,
    Operation,
    ResourceType,
    allowed,
    authorized_operations,
)
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.DescribeGroupsRequest) -> m.DescribeGroupsResponse:
    with_operations = request.include_authorized_operations
    return m.DescribeGroupsResponse(
        groups=[
            _describe(ctx, group_id, with_operations)
            # One that is named twice is answered once (ADR 36).
            async for group_id in ctx.turns.each(dict.fromkeys(request.groups))
        ]
    )


def _describe(
    ctx: RequestContext, group_id: str, with_operations: bool
) -> m.DescribeGroupsResponse.DescribedGroup:
    if not allowed(ctx, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return m.DescribeGroupsResponse.DescribedGroup(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id
        )
    group = ctx.services.groups.describe(group_id)
    operations = NOT_ASKED_FOR
    if with_operations and group.error is ErrorCode.NONE:
        operations = authorized_operations(ctx, ResourceType.GROUP, group_id)
    return m.DescribeGroupsResponse.DescribedGroup(
        error_code=group.error,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        authorized_operations=operations,
        members=[
            m.DescribeGroupsResponse.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
