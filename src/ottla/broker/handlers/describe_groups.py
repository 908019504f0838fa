"""DescribeGroups (15), versions 0 to 5.

Behaviour: state, protocol and members of each group; metadata and assignments only while it is
Stable. An unknown group is Dead, without an error.
Versions: 3 adds the authorized operations, 4 the instance ids.
Left out: authorisation; whoever asks for the operations is told all three of a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.operations import NOT_ASKED_FOR
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

# READ 3, DELETE 6, DESCRIBE 8 (KIP-430).
_GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8


async def handle(ctx: RequestContext, request: m.DescribeGroupsRequest) -> m.DescribeGroupsResponse:
    operations = _GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return m.DescribeGroupsResponse(
        groups=[_describe(ctx, group_id, operations) for group_id in request.groups]
    )


def _describe(
    ctx: RequestContext, group_id: str, operations: int
) -> m.DescribeGroupsResponse.DescribedGroup:
    group = ctx.services.groups.describe(group_id)
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
