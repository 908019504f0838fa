"""ACLs: CreateAcls, DescribeAcls and DeleteAcls. Whichever broker is asked, it tells the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import response_error
from ottla.security.acls import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.errors import KafkaError

_Code = TypeVar("_Code", bound=IntEnum)
# Version 0 knows literal names only; leaving the pattern type out would say something else.
_PATTERNS_FROM_VERSION = 1


class AclBinding(NamedTuple):
    pattern: ResourcePattern
    entry: AclEntry


class AclCalls(AdminSession):
    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        """Raises the first error; the others are made all the same."""
        creation_class = m.CreateAclsRequest.AclCreation
        request = m.CreateAclsRequest(
            creations=[
                creation_class(
                    resource_type=pattern.type,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for pattern, entry in bindings
            ]
        )
        for result in (await self._ask_any(request)).results:
            _raise_error(result)

    async def describe_acls(self, wanted: AclFilter) -> list[AclBinding]:
        request = m.DescribeAclsRequest(
            resource_type_filter=wanted.type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        answer = await self._ask_any(request)
        _raise_error(answer)
        return [
            AclBinding(_pattern(resource), _entry(acl))
            for resource in answer.resources
            for acl in resource.acls
        ]

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """What was removed; raises the first error."""
        filter_class = m.DeleteAclsRequest.DeleteAclsFilter
        request = m.DeleteAclsRequest(
            filters=[
                filter_class(
                    resource_type_filter=wanted.type,
                    resource_name_filter=wanted.name,
                    pattern_type_filter=wanted.pattern_type,
                    principal_filter=wanted.principal,
                    host_filter=wanted.host,
                    operation=wanted.operation,
                    permission_type=wanted.permission,
                )
                for wanted in filters
            ]
        )
        removed = []
        for result in (await self._ask_any(request)).filter_results:
            _raise_error(result)
            for acl in result.matching_acls:
                _raise_error(acl)
                removed.append(AclBinding(_pattern(acl), _entry(acl)))
        return removed

    async def _ask_any(self, request: Any) -> Any:
        return await self.cluster.send_to_any(
            request, timeout_ms=self._timeout_ms, min_version=_PATTERNS_FROM_VERSION
        )


def _raise_error(result: Any) -> None:
    if result.error_code:
        error: KafkaError = response_error(result.error_code, result.error_message)
        raise error


def _pattern(found: Any) -> ResourcePattern:
    return ResourcePattern(
        _known(ResourceType, found.resource_type),
        found.resource_name,
        _known(PatternType, found.pattern_type),
    )


def _entry(found: Any) -> AclEntry:
    return AclEntry(
        found.principal,
        found.host,
        _known(Operation, found.operation),
        _known(Permission, found.permission_type),
    )


def _known(kind: type[_Code], code: int) -> _Code:
    """Newer brokers have types and operations that are UNKNOWN here, as in Java's client."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
