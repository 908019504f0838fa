"""Which entries the flags of `ottla acls` stand for."""

from __future__ import annotations

from typing import Any

import click
import pytest

from ottla.cli.acls.options import (
    AclCommandError,
    AclOptions,
    check_usage,
    entries_to_add,
    entries_to_change,
    filter_of,
)
from ottla.security.acls import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ALICE = "User:alice"
TOPIC = ResourcePattern(ResourceType.TOPIC, "t")
GROUP = ResourcePattern(ResourceType.GROUP, "g")
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")


def operations(entries: Any) -> list[str]:
    return [entry.operation.name for entry in entries]


def test_principals_hosts_and_operations_multiply() -> None:
    options = AclOptions(
        add=True,
        topic=[" t "],
        operation=["read", "AlterConfigs"],
        allow_principal=[ALICE, "User:bob"],
        allow_host=["10.0.0.1"],
        deny_principal=["User:eve"],
    )
    found = entries_to_add(options)
    assert list(found) == [TOPIC]
    allowed = [
        AclEntry(who, "10.0.0.1", what, Permission.ALLOW)
        for who in (ALICE, "User:bob")
        for what in (Operation.READ, Operation.ALTER_CONFIGS)
    ]
    denied = [
        AclEntry("User:eve", "*", what, Permission.DENY)
        for what in (Operation.READ, Operation.ALTER_CONFIGS)
    ]
    assert found[TOPIC] == sorted([*allowed, *denied])


def test_roles() -> None:
    both = AclOptions(
        add=True, topic=["t"], group=["g"], allow_principal=[ALICE], producer=True, consumer=True,
        idempotent=True,
    )  # fmt: skip
    found = entries_to_add(both)
    assert list(found) == [TOPIC, CLUSTER, GROUP]
    assert operations(found[TOPIC]) == ["READ", "WRITE", "CREATE", "DESCRIBE"]
    assert operations(found[GROUP]) == ["READ"]
    assert operations(found[CLUSTER]) == ["IDEMPOTENT_WRITE"]
    transactional = AclOptions(
        add=True, topic=["t"], transactional_id=["x"], allow_principal=[ALICE], producer=True
    )
    (_, rights) = entries_to_add(transactional).values()
    assert operations(rights) == ["WRITE", "DESCRIBE"]


def test_without_a_principal_everything_of_a_resource_goes() -> None:
    found = entries_to_change(AclOptions(remove=True, topic=["t"], group=["g"]))
    assert found == {TOPIC: [], GROUP: []}


def test_prefixes_never_mean_the_cluster() -> None:
    options = AclOptions(
        add=True, topic=["t"], cluster=True, allow_principal=[ALICE],
        resource_pattern_type=PatternType.PREFIXED,
    )  # fmt: skip
    assert [resource.type for resource in entries_to_add(options)] == [ResourceType.TOPIC]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one action"),
        ({"add": True, "list": True}, "exactly one action"),
        ({"list": True, "deny_host": ["h"]}, r'"\[list\]" can\'t be used with .*"\[deny-host\]"'),
        ({"add": True, "producer": True, "operation": ["Read"]}, r'"\[producer\]" can\'t'),
        ({"add": True, "principal": [ALICE]}, "only available if --list"),
        ({"add": True, "producer": True}, "must specify a --topic"),
        ({"add": True, "idempotent": True}, "only available if --producer"),
        ({"add": True, "consumer": True, "topic": ["t"]}, "a --topic and a --group"),
        (
            {"add": True, "consumer": True, "topic": ["t"], "group": ["g"], "cluster": True},
            "no --cluster",
        ),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        check_usage(AclOptions(**given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "at least one resource"),
        ({"topic": ["t"]}, "--allow-principal, --deny-principal"),
        ({"topic": ["t"], "resource_pattern_type": PatternType.MATCH}, "'MATCH' is not valid"),
        (
            {"group": ["g"], "allow_principal": [ALICE], "operation": ["Write"]},
            "GROUP only supports operations READ,DESCRIBE,DELETE,ALL",
        ),
        (
            {"topic": ["t"], "allow_principal": [ALICE], "operation": ["nothing"]},
            "TOPIC only supports",
        ),
    ],
)
def test_what_cannot_be_added(given: dict[str, Any], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        entries_to_add(AclOptions(add=True, **given))


def test_a_principal_has_a_type() -> None:
    with pytest.raises(AclCommandError, match="principalType:principalName but got alice"):
        entries_to_add(AclOptions(add=True, topic=["t"], allow_principal=["alice"]))


def test_filters() -> None:
    entry = AclEntry(ALICE, "*", Operation.READ, Permission.ALLOW)
    assert filter_of(TOPIC, entry) == AclFilter(
        ResourceType.TOPIC, "t", PatternType.LITERAL, *entry
    )
    everything = (None, None, Operation.ANY, Permission.ANY)
    assert filter_of(TOPIC) == AclFilter(ResourceType.TOPIC, "t", PatternType.LITERAL, *everything)
    assert filter_of(None) == AclFilter(ResourceType.ANY, None, PatternType.ANY, *everything)
