"""`ottla acls` from arguments to lines, with a stand-in for the admin client."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.acls import AclBinding
from ottla.errors import ErrorCode, KafkaError
from ottla.security.acls import AclFilter, AclTable


class StandIn:
    """Keeps ACLs as a broker does."""

    def __init__(self) -> None:
        self.table = AclTable()
        self.refuse: KafkaError | None = None

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def create_acls(self, bindings: Iterable[AclBinding]) -> None:
        if self.refuse is not None:
            raise self.refuse
        for pattern, entry in bindings:
            before = self.table.get(pattern) or frozenset()
            self.table.set(pattern, before | {entry})

    async def describe_acls(self, wanted: AclFilter) -> list[AclBinding]:
        return [AclBinding(*found) for found in self.table.find(wanted)]

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        removed = [AclBinding(*found) for each in filters for found in self.table.find(each)]
        for pattern, entry in removed:
            before = self.table.get(pattern) or frozenset()
            self.table.set(pattern, before - {entry})
        return removed


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


ADD = ("acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t")
ENTRY = "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
LISTED = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:"
    f" \n \t{ENTRY} \n\n"
)


def test_add_and_list(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(ADD) == 0
    said, _ = capsys.readouterr()
    assert said == LISTED.replace("Current", "Adding") + LISTED
    assert cli_main.run(["acls", "--list"]) == 0
    assert capsys.readouterr().out == LISTED
    assert cli_main.run(["acls", "--list", "--principal", "User:bob"]) == 0
    assert capsys.readouterr().out == "ACLs for principal `User:bob`\n"
    assert cli_main.run(["acls", "--list", "--output", "json"]) == 0
    (value,) = json.loads(capsys.readouterr().out)
    assert value == {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }


def answer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_removal_asks(
    admin: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli_main.run(ADD)
    capsys.readouterr()
    remove = ["acls", "--remove", "--topic", "t"]
    answer("n\n", monkeypatch)
    assert cli_main.run(remove) == 0
    said = capsys.readouterr().out
    assert said.startswith("Are you sure you want to delete all ACLs for resource filter `Resource")
    assert said.endswith(LISTED), "still there"
    answer("", monkeypatch)
    assert cli_main.run(remove) == 1
    assert "nothing was removed" in capsys.readouterr().err
    answer("Y\n", monkeypatch)
    named = [*remove, "--allow-principal", "User:alice", "--operation", "Read"]
    assert cli_main.run(named) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Are you sure you want to remove ACLs: \n \t{ENTRY} \n from resource")
    assert "Current" not in said


def test_force_does_not_ask(
    admin: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli_main.run(ADD)
    capsys.readouterr()
    answer("", monkeypatch)
    assert cli_main.run(["acls", "--remove", "--topic", "t", "--force"]) == 0
    assert capsys.readouterr().out == ""


def test_a_refusal_is_one_line(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    admin.refuse = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured")
    assert cli_main.run(ADD) == 1
    assert capsys.readouterr().err == (
        "Error while executing ACL command: No Authorizer is configured\n"
    )
