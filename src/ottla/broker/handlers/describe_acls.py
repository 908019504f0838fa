"""DescribeAcls (29), versions 0 to 3.

Behaviour: the ACLs that match a filter, as this broker knows them, grouped by resource pattern.
SECURITY_DISABLED without an authoriser.
Versions: 0 knows literal patterns only; 1 has pattern types (KIP-290); 2 is flexible.
Rights: DESCRIBE on the cluster.
Left out: the resource type USER of version 3, which Kafka 2.8 does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.acl_messages import NO_AUTHORIZER, read_filter
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.DescribeAclsRequest) -> m.DescribeAclsResponse:
    wanted = read_filter(request)
    require_cluster(ctx, Operation.DESCRIBE)
    if ctx.authorizer is None:
        return m.DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
        )
    response = m.DescribeAclsResponse
    return response(
        error_message=None,
        resources=[
            response.DescribeAclsResource(
                resource_type=pattern.type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    response.AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in entries
                ],
            )
            for pattern, entries in ctx.authorizer.describe(wanted).items()
        ],
    )
