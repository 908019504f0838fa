"""The decisions of ACLs: who, what, where from, in which order."""

from __future__ import annotations

import pytest

from ottla.security.acls import (
    SUPPORTED_OPERATIONS,
    AclEntry,
    AclFilter,
    AclTable,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    operation_bits,
)

TOPIC = ResourceType.TOPIC
HOST = "1.2.3.4"


def entry(
    operation: Operation,
    *,
    principal: str = "User:a",
    host: str = "*",
    deny: bool = False,
) -> AclEntry:
    return AclEntry(principal, host, operation, Permission.DENY if deny else Permission.ALLOW)


def table(*bindings: tuple[str, AclEntry]) -> AclTable:
    """Names that end in `…` are prefixes."""
    entries: dict[ResourcePattern, set[AclEntry]] = {}
    for name, each in bindings:
        prefixed = name.endswith("…")
        kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        entries.setdefault(ResourcePattern(TOPIC, name.rstrip("…"), kind), set()).add(each)
    made = AclTable()
    for pattern, each_set in entries.items():
        made.set(pattern, frozenset(each_set))
    return made


def may(
    acls: AclTable,
    operation: Operation,
    name: str = "t",
    *,
    principal: str = "User:a",
    if_no_entry: bool = False,
) -> bool:
    return acls.allows(principal, HOST, operation, TOPIC, name, if_no_entry=if_no_entry)


def test_nothing_is_known() -> None:
    assert not may(table(), Operation.READ)
    assert may(table(), Operation.READ, if_no_entry=True)


def test_an_entry_of_anyone_ends_the_default() -> None:
    acls = table(("t", entry(Operation.WRITE, principal="User:other")))
    assert not may(acls, Operation.READ, if_no_entry=True)
    assert may(acls, Operation.READ, "another", if_no_entry=True)


@pytest.mark.parametrize(
    ("principal", "host", "operation", "expected"),
    [
        ("User:a", "*", Operation.READ, True),
        ("User:*", "*", Operation.READ, True),
        ("User:a", HOST, Operation.READ, True),
        ("User:a", "*", Operation.ALL, True),
        ("User:b", "*", Operation.READ, False),
        ("Group:a", "*", Operation.READ, False),
        ("User:a", "1.2.3.0/24", Operation.READ, False),
        ("User:a", "*", Operation.DESCRIBE, False),
    ],
)
def test_who_where_and_what(
    principal: str, host: str, operation: Operation, expected: bool
) -> None:
    acls = table(("t", entry(operation, principal=principal, host=host)))
    assert may(acls, Operation.READ) is expected


def test_deny_wins_whatever_the_pattern() -> None:
    for allowed, denied in (("t", "t"), ("t", "*"), ("*", "t"), ("t…", "t"), ("t", "t…")):
        acls = table((allowed, entry(Operation.ALL)), (denied, entry(Operation.READ, deny=True)))
        assert not may(acls, Operation.READ), (allowed, denied)
        assert may(acls, Operation.WRITE), (allowed, denied)


@pytest.mark.parametrize("by", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_describe_is_implied_by_allow_alone(by: Operation) -> None:
    assert may(table(("t", entry(by))), Operation.DESCRIBE)
    denied = table(("t", entry(by, deny=True)), ("t", entry(Operation.DESCRIBE)))
    assert may(denied, Operation.DESCRIBE)


def test_describe_configs_is_implied_by_alter_configs() -> None:
    assert may(table(("t", entry(Operation.ALTER_CONFIGS))), Operation.DESCRIBE_CONFIGS)
    assert not may(table(("t", entry(Operation.ALTER))), Operation.DESCRIBE_CONFIGS)
    assert not may(table(("t", entry(Operation.CREATE))), Operation.DESCRIBE)


def test_prefixes() -> None:
    acls = table(("ab…", entry(Operation.READ)), ("abcd…", entry(Operation.WRITE)))
    assert may(acls, Operation.READ, "ab")
    assert may(acls, Operation.READ, "abcde")
    assert may(acls, Operation.WRITE, "abcde")
    assert not may(acls, Operation.WRITE, "abc")
    assert not may(acls, Operation.READ, "a")
    # The star is a name like any other for a prefix.
    assert not may(table(("*…", entry(Operation.READ))), Operation.READ, "x")


def test_patterns_come_and_go() -> None:
    acls = table(("ab…", entry(Operation.READ)))
    pattern = ResourcePattern(TOPIC, "ab", PatternType.PREFIXED)
    assert not acls.set(pattern, frozenset({entry(Operation.READ)}))
    assert acls.set(pattern, frozenset())
    assert not acls.set(pattern, frozenset())
    assert not may(acls, Operation.READ, "abc")
    assert acls.patterns() == []
    assert may(acls, Operation.READ, "abc", if_no_entry=True)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([], False),
        ([("t", entry(Operation.WRITE))], True),
        ([("t…", entry(Operation.ALL))], True),
        ([("t", entry(Operation.READ))], False),
        ([("t", entry(Operation.WRITE, principal="User:b"))], False),
        ([("t", entry(Operation.WRITE)), ("*", entry(Operation.WRITE, deny=True))], False),
        ([("t", entry(Operation.WRITE)), ("t", entry(Operation.ALL, deny=True))], False),
        ([("t", entry(Operation.WRITE)), ("t…", entry(Operation.WRITE, deny=True))], False),
        ([("tab", entry(Operation.WRITE)), ("t…", entry(Operation.WRITE, deny=True))], False),
        ([("t…", entry(Operation.WRITE)), ("tab…", entry(Operation.WRITE, deny=True))], True),
        ([("t…", entry(Operation.WRITE)), ("t", entry(Operation.WRITE, deny=True))], True),
        ([("*", entry(Operation.WRITE)), ("t…", entry(Operation.WRITE, deny=True))], True),
    ],
)
def test_on_any_resource(bindings: list[tuple[str, AclEntry]], expected: bool) -> None:
    acls = table(*bindings)
    assert acls.allows_on_any("User:a", HOST, Operation.WRITE, TOPIC, if_no_entry=False) is expected


def test_on_any_resource_where_everyone_may() -> None:
    acls = table(("t", entry(Operation.WRITE, deny=True)))
    assert acls.allows_on_any("User:a", HOST, Operation.WRITE, TOPIC, if_no_entry=True)
    acls = table(("*", entry(Operation.WRITE, deny=True)))
    assert not acls.allows_on_any("User:a", HOST, Operation.WRITE, TOPIC, if_no_entry=True)


def test_bits_of_all_rights() -> None:
    bits = {kind: operation_bits(known) for kind, known in SUPPORTED_OPERATIONS.items()}
    assert bits == {TOPIC: 3576, ResourceType.GROUP: 328, ResourceType.CLUSTER: 8096}


PATTERNS = [
    ResourcePattern(TOPIC, "ab"),
    ResourcePattern(TOPIC, "*"),
    ResourcePattern(TOPIC, "a", PatternType.PREFIXED),
    ResourcePattern(TOPIC, "ab", PatternType.PREFIXED),
    ResourcePattern(ResourceType.GROUP, "ab"),
]


@pytest.mark.parametrize(
    ("kind", "name", "pattern_type", "expected"),
    [
        (ResourceType.ANY, None, PatternType.ANY, [0, 1, 2, 3, 4]),
        (TOPIC, "ab", PatternType.LITERAL, [0]),
        (TOPIC, "ab", PatternType.PREFIXED, [3]),
        (TOPIC, "ab", PatternType.ANY, [0, 3]),
        (TOPIC, "ab", PatternType.MATCH, [0, 1, 2, 3]),
        (TOPIC, None, PatternType.PREFIXED, [2, 3]),
        (ResourceType.GROUP, None, PatternType.MATCH, [4]),
        (TOPIC, "*", PatternType.LITERAL, [1]),
    ],
)
def test_filters(
    kind: ResourceType, name: str | None, pattern_type: PatternType, expected: list[int]
) -> None:
    wanted = AclFilter(kind, name, pattern_type, None, None, Operation.ANY, Permission.ANY)
    assert [i for i, pattern in enumerate(PATTERNS) if wanted.matches_pattern(pattern)] == expected


def test_filters_of_entries_take_text_as_it_is() -> None:
    acls = table(
        ("t", entry(Operation.READ)),
        ("t", entry(Operation.READ, principal="User:*", host="10.0.0.1")),
        ("t", entry(Operation.WRITE, deny=True)),
    )

    def count(**changes: object) -> int:
        given: dict[str, object] = {
            "principal": None,
            "host": None,
            "operation": Operation.ANY,
            "permission": Permission.ANY,
        }
        wanted = AclFilter(TOPIC, None, PatternType.ANY, **(given | changes))  # type: ignore[arg-type]
        return len(list(acls.find(wanted)))

    assert count() == 3
    assert count(principal="User:*") == 1
    assert count(principal="User:a") == 2
    assert count(host="*") == 2
    assert count(operation=Operation.READ) == 2
    assert count(permission=Permission.DENY) == 1
    assert count(permission=Permission.DENY, operation=Operation.READ) == 0


def test_the_one_pattern_of_a_filter() -> None:
    exact = AclFilter(TOPIC, "t", PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY)
    assert exact.only_pattern == ResourcePattern(TOPIC, "t")
    assert exact._replace(pattern_type=PatternType.MATCH).only_pattern is None
    assert exact._replace(name=None).only_pattern is None
    assert exact._replace(type=ResourceType.ANY).only_pattern is None
