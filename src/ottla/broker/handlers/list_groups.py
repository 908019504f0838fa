"""ListGroups (16), versions 0 to 5.

Behaviour: the groups that this broker coordinates; while one of its partitions is loading, what is
known so far with COORDINATOR_LOAD_IN_PROGRESS.
Versions: 4 filters by state and shows it, 5 filters by type; both filters ignore case, and empty
ones mean everything. Every group is `classic`.
Left out: types other than classic, which never match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.security.rights import Operation, ResourceType, allowed, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_CLASSIC = "classic"


async def handle(ctx: RequestContext, request: m.ListGroupsRequest) -> m.ListGroupsResponse:
    error, listed = ctx.services.groups.list_groups(request.states_filter)
    types = {name.lower() for name in request.types_filter}
    if types and _CLASSIC not in types:
        listed = []
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        listed = [
            group
            async for group in ctx.turns.each(listed)
            if allowed(ctx, Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    return m.ListGroupsResponse(
        error_code=error,
        groups=[
            m.ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=_CLASSIC,
            )
            async for group in ctx.turns.each(listed)
        ],
    )
