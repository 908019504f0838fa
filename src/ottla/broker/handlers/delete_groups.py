"""DeleteGroups (42), versions 0 to 2.

Behaviour: removes groups without members, together with their offsets (KIP-229). Others:
NON_EMPTY_GROUP; unknown ones: GROUP_ID_NOT_FOUND. An error of the log is answered too: the group
may come back with the next coordinator.
Versions: the same in all.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.DeleteGroupsRequest) -> m.DeleteGroupsResponse:
    group_ids = dict.fromkeys(request.groups_names)
    refused = await refused_in_turns(ctx, Operation.DELETE, ResourceType.GROUP, group_ids)
    errors: dict[str, ErrorCode] = {}
    async for group_id in ctx.turns.each(group_ids):
        if group_id not in refused:
            errors.update(await ctx.services.groups.delete_groups([group_id]))
    errors.update(dict.fromkeys(refused, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return m.DeleteGroupsResponse(
        results=[
            m.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in errors.items()
        ]
    )
