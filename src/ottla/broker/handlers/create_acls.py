"""CreateAcls (30), versions 0 to 3.

Behaviour: adds ACLs, on any broker; one that is there already is fine. Each gets its own code:
INVALID_REQUEST for an empty name or a cluster that is not `kafka-cluster`; -1 for all of a pattern
where one of its principals has no `Type:`. SECURITY_DISABLED without an authoriser.
Versions: 0 knows literal patterns only; 1 has pattern types (KIP-290); 2 is flexible.
Rights: ALTER on the cluster.
Left out: the resource type USER of version 3, which Kafka 2.8 does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import check_changes
from ottla.broker.context.acl_messages import NO_AUTHORIZER, read_binding
from ottla.errors import ErrorCode, KafkaError
from ottla.security.acls import CLUSTER_NAME, ResourcePattern, ResourceType
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.CreateAclsRequest) -> m.CreateAclsResponse:
    require_cluster(ctx, Operation.ALTER)
    if ctx.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    check_changes(len(request.creations))
    bindings = [read_binding(each) async for each in ctx.turns.each(request.creations)]
    errors = [_objection(pattern) for pattern, _ in bindings]
    created = iter(
        await ctx.authorizer.create(
            [binding for binding, error in zip(bindings, errors, strict=True) if error is None]
        )
    )
    outcomes = [next(created) if error is None else error for error in errors]
    return m.CreateAclsResponse(
        results=[
            m.CreateAclsResponse.AclCreationResult(
                error_code=ErrorCode.NONE if outcome is None else outcome.code,
                error_message=None if outcome is None else outcome.message,
            )
            async for outcome in ctx.turns.each(outcomes)
        ]
    )


def _objection(pattern: ResourcePattern) -> KafkaError | None:
    if pattern.type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        )
    if not pattern.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None
