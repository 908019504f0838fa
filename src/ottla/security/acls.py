"""ACLs and the decisions made from them; no I/O (AclAuthorizer, AclEntry, ResourcePatternFilter).

An operation on a resource is decided in this order: no entry at all for the name, whoever it is
about: the configured default; any matching Deny: no; any matching Allow: yes; otherwise no. Super
users are settled before (`authorizer.py`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.metadata.acl_znodes import (
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "SUPPORTED_OPERATIONS",
    "AclEntry",
    "AclFilter",
    "AclTable",
    "Operation",
    "PatternType",
    "Permission",
    "ResourcePattern",
    "ResourceType",
    "operation_bits",
]

CLUSTER_NAME = "kafka-cluster"
ANONYMOUS = "User:ANONYMOUS"
_EVERY_USER = "User:*"
NO_ENTRIES: frozenset[AclEntry] = frozenset()

# AclEntry.supportedOperations: what a resource of each type can be asked for (KIP-430).
SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}

# An Allow of one of these allows the operation too. A Deny implies nothing.
_IMPLIED_BY: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NONE_IMPLIED: frozenset[Operation] = frozenset()


def operation_bits(operations: Iterable[Operation]) -> int:
    """Bit n stands for operation code n."""
    return sum(1 << operation for operation in operations)


def _is_about(entry: AclEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, _EVERY_USER) and entry.host in (host, WILDCARD)


class AclFilter(NamedTuple):
    """What DescribeAcls and DeleteAcls look for; None and ANY match everything."""

    type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.type not in (ResourceType.ANY, pattern.type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)

    def matches_entry(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )

    @property
    def only_pattern(self) -> ResourcePattern | None:
        """The one pattern that can match, where there is only one."""
        is_exact = self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        if self.type is ResourceType.ANY or self.name is None or not is_exact:
            return None
        return ResourcePattern(self.type, self.name, self.pattern_type)


class AclTable:
    """All entries by resource pattern."""

    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, frozenset[AclEntry]] = {}
        # How many prefixed patterns of each length there are: a name is looked up once per length.
        self._prefix_lengths: defaultdict[ResourceType, Counter[int]] = defaultdict(Counter)

    def get(self, pattern: ResourcePattern) -> frozenset[AclEntry] | None:
        return self._entries.get(pattern)

    def patterns(self) -> list[ResourcePattern]:
        return list(self._entries)

    def set(self, pattern: ResourcePattern, entries: frozenset[AclEntry]) -> bool:
        """Replaces a pattern's entries; False where they were the same. Empty ones remove it."""
        before = self._entries.get(pattern, NO_ENTRIES)
        if entries == before:
            return False
        if pattern.pattern_type is PatternType.PREFIXED and bool(before) != bool(entries):
            lengths = self._prefix_lengths[pattern.type]
            lengths[len(pattern.name)] += 1 if entries else -1
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]
        if entries:
            self._entries[pattern] = entries
        else:
            del self._entries[pattern]
        return True

    def find(self, wanted: AclFilter) -> Iterator[tuple[ResourcePattern, AclEntry]]:
        for pattern, entries in self._entries.items():
            if wanted.matches_pattern(pattern):
                for entry in sorted(entries):
                    if wanted.matches_entry(entry):
                        yield pattern, entry

    def _that_count(self, resource_type: ResourceType, name: str) -> list[AclEntry]:
        """The entries of the literal name, of the literal star and of every prefix of the name."""
        patterns = [ResourcePattern(resource_type, name), ResourcePattern(resource_type, WILDCARD)]
        patterns += [
            ResourcePattern(resource_type, name[:length], PatternType.PREFIXED)
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        ]
        found = self._entries
        return [entry for pattern in patterns for entry in found.get(pattern, NO_ENTRIES)]

    def allows(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        if_no_entry: bool,
    ) -> bool:
        entries = self._that_count(resource_type, name)
        if not entries:
            return if_no_entry
        implied_by = _IMPLIED_BY.get(operation, _NONE_IMPLIED)
        allowed = False
        for entry in entries:
            if not _is_about(entry, principal, host):
                continue
            direct = entry.operation in (operation, Operation.ALL)
            if entry.permission is Permission.DENY:
                if direct:
                    return False
            elif direct or entry.operation in implied_by:
                allowed = True
        return allowed

    def allows_on_any(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        *,
        if_no_entry: bool,
    ) -> bool:
        """Whether some resource of the type may be used (authorizeByResourceType, KIP-679)."""
        allowed: set[ResourcePattern] = set()
        denied: set[ResourcePattern] = set()
        for pattern, entries in self._entries.items():
            if pattern.type is not resource_type:
                continue
            for entry in entries:
                direct = entry.operation in (operation, Operation.ALL)
                if direct and _is_about(entry, principal, host):
                    (denied if entry.permission is Permission.DENY else allowed).add(pattern)
        if ResourcePattern(resource_type, WILDCARD) in denied:
            return False
        return if_no_entry or any(not _is_dominated(pattern, denied) for pattern in allowed)


def _is_dominated(allowed: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    """Whether a Deny covers everything that an Allow of this pattern gives."""
    if allowed.pattern_type is PatternType.LITERAL:
        if allowed.name == WILDCARD:
            return False  # only a Deny on the star itself covers it
        if allowed in denied:
            return True
    return any(
        pattern.pattern_type is PatternType.PREFIXED and allowed.name.startswith(pattern.name)
        for pattern in denied
    )
