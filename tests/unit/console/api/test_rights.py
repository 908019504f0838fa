from __future__ import annotations

from typing import Any

import pytest

from ottla.console.api.rights import ROUTES, Acl, NewAcls, bindings
from ottla.console.commands import ottla
from ottla.console.settings import ConsoleSettings
from ottla.console.web.access import Access
from ottla.console.web.failures import ApiError
from ottla.console.web.routes import Call

GOOD: dict[str, Any] = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "principal": "User:alice",
    "operations": ["READ"],
}
ENTRY = Acl("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW")


def call(body: Any, **properties: str) -> Call:
    settings = ConsoleSettings(bootstrap="h:1", properties=properties)
    return Call(Access(None), settings, {}, body=body)  # type: ignore[arg-type]  # not asked


def commands(path: str, body: Any) -> list[str]:
    route = next(one for one in ROUTES if one.path == path and one.writes)
    assert route.commands is not None
    return list(route.commands(call(body)))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"resource_name": " "}, "resource_name"),
        ({"principal": "alice"}, "principal"),
        ({"principal": "User:"}, "principal"),
        ({"operations": []}, "operations"),
        ({"operations": ["CLUSTER_ACTION"]}, "operations"),
        ({"operations": ["ANY"]}, "operations"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as refused:
        bindings(NewAcls(**GOOD | changed))
    assert refused.value.field == field


def test_the_cluster_has_one_name() -> None:
    wanted = GOOD | {"resource_type": "CLUSTER", "resource_name": "", "operations": ["ALTER"]}
    assert bindings(NewAcls(**wanted))[0].pattern.name == "kafka-cluster"
    assert commands("/acls", NewAcls(**wanted))[0].endswith("--operation Alter --cluster")


def test_names_are_quoted_for_the_shell() -> None:
    wanted = GOOD | {"principal": "User:a'b; rm -rf /", "host": "10.0.0.1", "permission": "DENY"}
    assert commands("/acls", NewAcls(**wanted)) == [
        "ottla acls --bootstrap-server h:1 --add --deny-principal 'User:a'\"'\"'b; rm -rf /' "
        "--deny-host 10.0.0.1 --operation Read --topic orders"
    ]


def test_users_have_their_own_file() -> None:
    line = ottla(call(None, **{"security.protocol": "SASL_SSL"}).settings, "acls", "--list")
    assert line == "ottla acls --bootstrap-server h:1 --command-config client.properties --list"


def test_one_entry_is_removed_and_never_all_that_match() -> None:
    assert commands("/acls/remove", ENTRY)[0].endswith(
        "--remove --force --allow-principal User:alice --operation Read --topic orders"
    )
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        for word in ("ANY", "UNKNOWN", "MATCH", "nonsense"):
            with pytest.raises(ApiError):
                commands("/acls/remove", Acl(**_fields(ENTRY) | {name: word}))


def _fields(acl: Acl) -> dict[str, str]:
    return {name: getattr(acl, name) for name in acl.__struct_fields__}
