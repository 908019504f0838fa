"""ACLs as the messages carry them: numbers that must be known ones (AccessControlEntryFilter…).

A code that nobody knows is refused while a request is parsed, and like any request that cannot be
parsed it ends the connection.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.context.request import CloseConnection
from ottla.errors import ErrorCode, KafkaError
from ottla.security.acls import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

if TYPE_CHECKING:
    from ottla.wire import messages as m

_Code = TypeVar("_Code", bound=IntEnum)

NO_AUTHORIZER = "No Authorizer is configured on the broker"
_FOR_FILTERS = ("ANY", "MATCH")


def _known(kind: type[_Code], code: int) -> _Code:
    try:
        found = kind(code)
    except ValueError:
        found = kind(0)
    if found == 0:
        raise CloseConnection(f"an ACL request has the unknown {kind.__name__} code {code}")
    return found


def read_filter(
    given: m.DescribeAclsRequest | m.DeleteAclsRequest.DeleteAclsFilter,
) -> AclFilter:
    return AclFilter(
        _known(ResourceType, given.resource_type_filter),
        given.resource_name_filter,
        _known(PatternType, given.pattern_type_filter),
        given.principal_filter,
        given.host_filter,
        _known(Operation, given.operation),
        _known(Permission, given.permission_type),
    )


def read_binding(given: m.CreateAclsRequest.AclCreation) -> tuple[ResourcePattern, AclEntry]:
    """Raises UNKNOWN_SERVER_ERROR for what only a filter can say; Kafka has no better code."""
    pattern = ResourcePattern(
        _known(ResourceType, given.resource_type),
        given.resource_name,
        _known(PatternType, given.resource_pattern_type),
    )
    entry = AclEntry(
        given.principal,
        given.host,
        _known(Operation, given.operation),
        _known(Permission, given.permission_type),
    )
    kinds = (pattern.type, pattern.pattern_type, entry.operation, entry.permission)
    if any(kind.name in _FOR_FILTERS for kind in kinds):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return pattern, entry
