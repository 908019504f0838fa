"""What handlers ask before they do something: may this request's principal do it?

Without an authoriser every answer is yes and costs one comparison with None. Names and kinds of
resources are Kafka's; `kafka-cluster` is the one resource of type CLUSTER.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acl_znodes import Operation, ResourceType
from ottla.security.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, operation_bits

if TYPE_CHECKING:
    from ottla.broker.requests.context import RequestContext

__all__ = [
    "NOT_ASKED_FOR",
    "Operation",
    "ResourceType",
    "allowed",
    "allowed_on_any",
    "allowed_on_cluster",
    "authorized_operations",
    "cluster_operations",
    "refused_names",
    "require_cluster",
    "require_group",
]

# What the field of authorized operations says where it was not asked for.
NOT_ASKED_FOR = -(2**31)

_NOBODY: frozenset[str] = frozenset()


def allowed(
    ctx: RequestContext,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log_denied: bool = True,
    log_allowed: bool = True,
) -> bool:
    authorizer = ctx.authorizer
    return authorizer is None or authorizer.authorize(
        ctx.principal,
        ctx.client_host,
        operation,
        resource_type,
        name,
        request=ctx.api_name,
        log_denied=log_denied,
        log_allowed=log_allowed,
    )


def allowed_on_cluster(
    ctx: RequestContext, operation: Operation, *, log_denied: bool = True
) -> bool:
    return allowed(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def allowed_on_any(ctx: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
    """Whether there is any resource of the type with which the principal may do this."""
    authorizer = ctx.authorizer
    return authorizer is None or authorizer.authorize_on_any(
        ctx.principal, ctx.client_host, operation, resource_type
    )


def require_cluster(ctx: RequestContext, operation: Operation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED, which becomes the API's error form."""
    if ctx.authorizer is not None and not allowed_on_cluster(ctx, operation):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Request {ctx.api_name} is not authorized."
        )


def require_group(ctx: RequestContext, operation: Operation, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED."""
    if ctx.authorizer is not None and not allowed(ctx, operation, ResourceType.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def refused_names(
    ctx: RequestContext,
    operation: Operation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> Collection[str]:
    """Those of the names that the principal may not use this way, in their order; each is looked
    at once."""
    if ctx.authorizer is None:
        return _NOBODY
    return dict.fromkeys(
        name
        for name in dict.fromkeys(names)
        if not allowed(ctx, operation, resource_type, name, log_denied=log_denied)
    )


def authorized_operations(ctx: RequestContext, resource_type: ResourceType, name: str) -> int:
    """The bit set of KIP-430: every operation of the resource goes through the whole decision."""
    return operation_bits(
        operation
        for operation in SUPPORTED_OPERATIONS[resource_type]
        if allowed(ctx, operation, resource_type, name, log_denied=False, log_allowed=False)
    )


def cluster_operations(ctx: RequestContext) -> int:
    """The cluster's bit set, 0 for whoever may not describe it."""
    if not allowed_on_cluster(ctx, Operation.DESCRIBE):
        return 0
    return authorized_operations(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
