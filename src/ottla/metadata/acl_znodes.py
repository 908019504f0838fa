"""Kafka's ACL znodes: what they hold, where they are, their bytes (ZkData.scala, AclEntry).

Literal patterns live under /kafka-acl, prefixed ones under /kafka-acl-extended (KIP-290), each
with a folder of change notes of its own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.znode_values import BadZnodeError, dump, load

WILDCARD = "*"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourcePattern(NamedTuple):
    type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AclEntry(NamedTuple):
    """Who may, or may not, do what; the principal as `Type:name`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


def stored_name(member: IntEnum) -> str:
    """TRANSACTIONAL_ID is stored as TransactionalId."""
    return "".join(word.capitalize() for word in member.name.split("_"))


# What an entry or a folder may name; UNKNOWN and ANY are for filters only.
RESOURCE_TYPES = {stored_name(t): t for t in ResourceType if t > ResourceType.ANY}
_OPERATIONS = {stored_name(o): o for o in Operation if o > Operation.ANY}
_PERMISSIONS = {stored_name(p): p for p in Permission if p > Permission.ANY}

_FOLDERS = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}


class AclZnode:
    """The entries of one resource pattern."""

    @staticmethod
    def folder(pattern_type: PatternType, resource_type: ResourceType | None = None) -> str:
        base = _FOLDERS[pattern_type]
        return base if resource_type is None else f"{base}/{stored_name(resource_type)}"

    @classmethod
    def path(cls, pattern: ResourcePattern) -> str:
        return f"{cls.folder(pattern.pattern_type, pattern.type)}/{pattern.name}"

    @staticmethod
    def encode(entries: frozenset[AclEntry]) -> bytes:
        acls = [
            {
                "principal": entry.principal,
                "permissionType": stored_name(entry.permission),
                "operation": stored_name(entry.operation),
                "host": entry.host,
            }
            for entry in sorted(entries)
        ]
        return dump({"version": 1, "acls": acls})

    @staticmethod
    def decode(path: str, data: bytes | None) -> frozenset[AclEntry]:
        """Raises BadZnodeError where Kafka would not start with it either."""
        if not data:
            return frozenset()
        value = load(data)
        if value is None or value.get("version") != 1:
            raise BadZnodeError(f"{path} is not JSON of version 1")
        acls = value.get("acls")
        if not isinstance(acls, list):
            raise BadZnodeError(f"{path} has no list of ACLs")
        return frozenset(_entry(path, acl) for acl in acls)


def _entry(path: str, acl: object) -> AclEntry:
    fields = acl if isinstance(acl, dict) else {}
    principal, host = fields.get("principal"), fields.get("host")
    operation = _OPERATIONS.get(str(fields.get("operation")))
    permission = _PERMISSIONS.get(str(fields.get("permissionType")))
    if (
        not isinstance(principal, str)
        or ":" not in principal
        or not isinstance(host, str)
        or operation is None
        or permission is None
    ):
        raise BadZnodeError(f"{path} has an ACL that cannot be read: {acl}")
    return AclEntry(principal, host, operation, permission)


class AclChangeZnode:
    """A note that the entries of one pattern changed."""

    PREFIX = "acl_changes_"
    _PARENTS = {  # noqa: RUF012  constant
        PatternType.LITERAL: "/kafka-acl-changes",
        PatternType.PREFIXED: "/kafka-acl-extended-changes",
    }

    @classmethod
    def parent(cls, pattern_type: PatternType) -> str:
        return cls._PARENTS[pattern_type]

    @classmethod
    def path(cls, pattern_type: PatternType) -> str:
        """Of a new note; the store appends the number."""
        return f"{cls.parent(pattern_type)}/{cls.PREFIX}"

    @staticmethod
    def encode(pattern: ResourcePattern) -> bytes:
        if pattern.pattern_type is PatternType.LITERAL:
            return f"{pattern.type.name}:{pattern.name}".encode()
        return dump(
            {
                "version": 1,
                "resourceType": pattern.type.name,
                "name": pattern.name,
                "patternType": pattern.pattern_type.name,
            }
        )

    @classmethod
    def decode(cls, pattern_type: PatternType, data: bytes | None) -> ResourcePattern:
        if pattern_type is PatternType.LITERAL:
            text = (data or b"").decode(errors="replace")
            type_name, colon, name = text.partition(":")
            if not colon:
                raise BadZnodeError(f"an ACL change note cannot be read: {text!r}")
            return ResourcePattern(_type_named(type_name), name)
        value = load(data) or {}
        prefix = value.get("name")
        if value.get("version") != 1 or not isinstance(prefix, str):
            raise BadZnodeError("an extended ACL change note cannot be read")
        if value.get("patternType") != PatternType.PREFIXED.name:
            raise BadZnodeError(f"an ACL change note has pattern type {value.get('patternType')}")
        return ResourcePattern(_type_named(str(value.get("resourceType"))), prefix, pattern_type)


def _type_named(text: str) -> ResourceType:
    """Old brokers wrote `Topic`, newer ones write `TOPIC`."""
    try:
        return ResourceType[text.upper()]
    except KeyError:
        found = {name.upper(): kind for name, kind in RESOURCE_TYPES.items()}.get(text.upper())
        if found is None:
            raise BadZnodeError(f"an ACL change note names the resource type {text!r}") from None
        return found
