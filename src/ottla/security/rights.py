"""What is asked before a request is served: may its sender do this?

Without an authoriser every answer is yes and costs one comparison with None. Names and kinds of
resources are Kafka's; `kafka-cluster` is the one resource of type CLUSTER.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acl_znodes import Operation, ResourceType
from ottla.security.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, operation_bits

if TYPE_CHECKING:
    from ottla.bounds.turns import Turns
    from ottla.security.authorizer import AclAuthorizer

__all__ = [
    "NOT_ASKED_FOR",
    "Operation",
    "Requester",
    "ResourceType",
    "allowed",
    "allowed_on_any",
    "allowed_on_cluster",
    "authorized_operations",
    "cluster_operations",
    "refused_in_turns",
    "refused_names",
    "require_cluster",
    "require_group",
]

# What the field of authorized operations says where it was not asked for.
NOT_ASKED_FOR = -(2**31)

_NOBODY: frozenset[str] = frozenset()


class Requester(Protocol):
    """Who asks, from where, with which request (Kafka's name of it), and who decides: nobody where
    everything is allowed."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def api_name(self) -> str: ...

    @property
    def authorizer(self) -> AclAuthorizer | None: ...

    @property
    def turns(self) -> Turns:
        """Of the event loop: who asks decides how much there is to decide."""


def allowed(
    requester: Requester,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    log_denied: bool = True,
    log_allowed: bool = True,
) -> bool:
    authorizer = requester.authorizer
    return authorizer is None or authorizer.authorize(
        requester.principal,
        requester.client_host,
        operation,
        resource_type,
        name,
        request=requester.api_name,
        log_denied=log_denied,
        log_allowed=log_allowed,
    )


def allowed_on_cluster(
    requester: Requester, operation: Operation, *, log_denied: bool = True
) -> bool:
    return allowed(requester, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def allowed_on_any(requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
    """Whether there is any resource of the type with which the principal may do this."""
    authorizer = requester.authorizer
    return authorizer is None or authorizer.authorize_on_any(
        requester.principal, requester.client_host, operation, resource_type
    )


def require_cluster(requester: Requester, operation: Operation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED, which becomes the API's error form."""
    if requester.authorizer is not None and not allowed_on_cluster(requester, operation):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Request {requester.api_name} is not authorized.",
        )


def require_group(requester: Requester, operation: Operation, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED."""
    if requester.authorizer is not None and not allowed(
        requester, operation, ResourceType.GROUP, group_id
    ):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def refused_names(
    requester: Requester,
    operation: Operation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> Collection[str]:
    """Those of the names that the principal may not use this way, in their order; each is looked
    at once."""
    if requester.authorizer is None:
        return _NOBODY
    return dict.fromkeys(
        name
        for name in dict.fromkeys(names)
        if not allowed(requester, operation, resource_type, name, log_denied=log_denied)
    )


async def refused_in_turns(
    requester: Requester,
    operation: Operation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> Collection[str]:
    """The same, with others having their turn in between."""
    if requester.authorizer is None:
        return _NOBODY
    return {
        name: None
        async for name in requester.turns.each(dict.fromkeys(names))
        if not allowed(requester, operation, resource_type, name, log_denied=log_denied)
    }


def authorized_operations(requester: Requester, resource_type: ResourceType, name: str) -> int:
    """The bit set of KIP-430: every operation of the resource goes through the whole decision."""
    return operation_bits(
        operation
        for operation in SUPPORTED_OPERATIONS[resource_type]
        if allowed(requester, operation, resource_type, name, log_denied=False, log_allowed=False)
    )


def cluster_operations(requester: Requester) -> int:
    """The cluster's bit set, 0 for whoever may not describe it."""
    if not allowed_on_cluster(requester, Operation.DESCRIBE):
        return 0
    return authorized_operations(requester, ResourceType.CLUSTER, CLUSTER_NAME)
