"""DeleteAcls (31), versions 0 to 3.

Behaviour: removes the ACLs that match any of the filters and lists them under the first filter
that matched; no match is not an error. SECURITY_DISABLED without an authoriser.
Versions: 0 knows literal patterns only; 1 has pattern types (KIP-290); 2 is flexible.
Rights: ALTER on the cluster.
Left out: the resource type USER of version 3, which Kafka 2.8 does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import check_changes
from ottla.broker.context.acl_messages import NO_AUTHORIZER, read_filter
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.DeleteAclsRequest) -> m.DeleteAclsResponse:
    require_cluster(ctx, Operation.ALTER)
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    check_changes(len(request.filters))
    filters = [read_filter(each) async for each in ctx.turns.each(request.filters)]
    response = m.DeleteAclsResponse
    return response(
        filter_results=[
            response.DeleteAclsFilterResult(
                error_message=None,
                matching_acls=[
                    response.DeleteAclsMatchingAcl(
                        error_code=ErrorCode.NONE if error is None else error.code,
                        error_message=None if error is None else error.message,
                        resource_type=pattern.type,
                        resource_name=pattern.name,
                        pattern_type=pattern.pattern_type,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for pattern, entry, error in removed
                ],
            )
            async for removed in ctx.turns.each(await ctx.authorizer.delete(filters))
        ]
    )
