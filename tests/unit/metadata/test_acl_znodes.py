"""ACL znodes: paths, bytes, and what is not read."""

from __future__ import annotations

import pytest

from ottla.metadata.acl_znodes import (
    AclChangeZnode,
    AclEntry,
    AclZnode,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    stored_name,
)
from ottla.metadata.znode_values import BadZnodeError

READ = AclEntry("User:a", "*", Operation.READ, Permission.ALLOW)
LITERAL = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx")
PREFIXED = ResourcePattern(ResourceType.TOPIC, "pre", PatternType.PREFIXED)


def test_paths() -> None:
    assert AclZnode.path(LITERAL) == "/kafka-acl/TransactionalId/tx"
    assert AclZnode.path(PREFIXED) == "/kafka-acl-extended/prefixed/Topic/pre"
    assert AclChangeZnode.path(PatternType.LITERAL) == "/kafka-acl-changes/acl_changes_"
    assert AclChangeZnode.path(PatternType.PREFIXED) == "/kafka-acl-extended-changes/acl_changes_"


def test_bytes_of_entries() -> None:
    data = AclZnode.encode(frozenset({READ}))
    assert data == (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    assert AclZnode.decode("/p", data) == {READ}
    assert AclZnode.decode("/p", None) == frozenset()


def test_every_operation_and_permission_survives() -> None:
    entries = frozenset(
        AclEntry("User:CN=x,O=y", "10.0.0.1", operation, permission)
        for operation in Operation
        if operation > Operation.ANY
        for permission in (Permission.ALLOW, Permission.DENY)
    )
    assert AclZnode.decode("/p", AclZnode.encode(entries)) == entries


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":["x"]}',
        b'{"version":1,"acls":[{"principal":"a","permissionType":"Allow","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Maybe","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Any","host":"*"}]}',
    ],
)
def test_what_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(BadZnodeError, match="/kafka-acl/Topic/t"):
        AclZnode.decode("/kafka-acl/Topic/t", data)


def test_change_notes() -> None:
    assert AclChangeZnode.encode(LITERAL) == b"TRANSACTIONAL_ID:tx"
    assert AclChangeZnode.encode(PREFIXED) == (
        b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}'
    )
    for pattern in (LITERAL, PREFIXED, ResourcePattern(ResourceType.GROUP, "a:b")):
        data = AclChangeZnode.encode(pattern)
        assert AclChangeZnode.decode(pattern.pattern_type, data) == pattern
    old = AclChangeZnode.decode(PatternType.LITERAL, b"TransactionalId:tx")
    assert old == LITERAL


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (PatternType.LITERAL, None),
        (PatternType.LITERAL, b"Topic"),
        (PatternType.LITERAL, b"Planet:x"),
        (PatternType.LITERAL, b"\xff\xfe"),
        (PatternType.PREFIXED, b"TOPIC:x"),
        (
            PatternType.PREFIXED,
            b'{"version":1,"resourceType":"TOPIC","name":"x","patternType":"LITERAL"}',
        ),
    ],
)
def test_bad_change_notes(kind: PatternType, data: bytes | None) -> None:
    with pytest.raises(BadZnodeError):
        AclChangeZnode.decode(kind, data)


def test_names_as_stored() -> None:
    assert stored_name(ResourceType.DELEGATION_TOKEN) == "DelegationToken"
    assert stored_name(Operation.DESCRIBE_CONFIGS) == "DescribeConfigs"
