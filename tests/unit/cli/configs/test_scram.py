"""Passwords of SCRAM users from the command line: where they come from, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click
import pytest

from ottla.cli import main as cli_main
from ottla.cli.configs.scram import new_credentials
from ottla.client.admin import client as admin_module
from ottla.client.admin.scram import NewScramCredential
from ottla.errors import ErrorCode, KafkaError

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def _one(text: str) -> NewScramCredential:
    (credential,) = new_credentials("alice", {SHA_256: text})
    return credential


@pytest.mark.parametrize(
    ("text", "iterations", "password"),
    [
        ("password=p", 4096, "p"),
        ("iterations=8192,password=p", 8192, "p"),
        ("iterations=-1,password=p", 4096, "p"),
        ("iterations=99999,password=a=b, c", 99999, "a=b, c"),
        # As it may stand in a property file.
        ("[iterations=8192,password=p]", 8192, "p"),
    ],
)
def test_values(text: str, iterations: int, password: str) -> None:
    assert _one(text) == (SHA_256, iterations, password)


def test_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3,[cret] é\r\nsecond line\n", encoding="utf-8")
    assert _one(f"iterations=5000,password-file={file}") == (SHA_256, 5000, "s3,[cret] é")


def test_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    both = new_credentials(
        "alice", {SHA_256: "password-file=-", SHA_512: "iterations=5000,password-file=-"}
    )
    assert both == [(SHA_256, 4096, "one"), (SHA_512, 5000, "two")]


def test_asked_for_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked = []

    def prompt(text: str, **options: bool) -> str:
        asked.append((text, options))
        return "typed"

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(click, "prompt", prompt)
    assert _one("iterations=5000") == (SHA_256, 5000, "typed")
    ((text, options),) = asked
    assert text == "Password of alice for SCRAM-SHA-256"
    assert options == {"hide_input": True, "confirmation_prompt": True, "err": True}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("secret", "Invalid credential property SCRAM-SHA-256: it is"),
        ("iterations=x,password=secret", "Invalid credential property SCRAM-SHA-256: it is"),
        ("iterations=4096password=secret", "Invalid credential property SCRAM-SHA-256: it is"),
        ("password=", "The password for SCRAM-SHA-256 is empty"),
        ("iterations=100,password=secret", "Iterations 100 is less than the minimum 4096 required"),
        ("password-file=/nowhere/x", "Cannot read the password from /nowhere/x: No such file"),
        ("iterations=5000", "There is no terminal to ask for the password of alice"),
    ],
)
def test_refusals_do_not_repeat_the_password(
    monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(click.UsageError, match=reason) as caught:
        _one(text)
    assert "secret" not in str(caught.value)


class StandIn:
    def __init__(self) -> None:
        self.set: dict[str, list[NewScramCredential]] = {}
        self.removed: dict[str, list[str]] = {}
        self.refuse: KafkaError | None = None

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def describe_client_quotas(self, components: object) -> dict[object, dict[str, float]]:
        return {(("user", "alice"),): {"producer_byte_rate": 5.0}}

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = ()
    ) -> dict[str, dict[str, int] | KafkaError]:
        found: dict[str, dict[str, int] | KafkaError] = {
            "alice": {SHA_256: 8192, SHA_512: 4096},
            "broken": KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR),
        }
        asked = list(users)
        absent = KafkaError(ErrorCode.RESOURCE_NOT_FOUND)
        return {user: found.get(user, absent) for user in asked} if asked else found

    async def alter_user_scram_credentials(
        self,
        credentials: Mapping[str, Sequence[NewScramCredential]],
        removed: Mapping[str, Sequence[str]],
    ) -> dict[str, KafkaError | None]:
        self.set = {user: list(own) for user, own in credentials.items()}
        self.removed = {user: list(own) for user, own in removed.items()}
        return dict.fromkeys(credentials, self.refuse)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli_main.run(["configs", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_describe(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    quota = "Quota configs for user-principal 'alice' are producer_byte_rate=5.0\n"
    scram = (
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192, "
        "SCRAM-SHA-512=iterations=4096\n"
    )
    assert _run(capsys, "--describe", "--user", "alice") == (0, quota + scram, "")
    assert _run(capsys, "--describe", "--entity-type", "users") == (
        0,
        quota + scram,
        "Error retrieving SCRAM credential configs for user-principal 'broken': The server "
        "experienced an unexpected error when processing the request.\n",
    )
    # Who has none is not an error; defaults and clients have none.
    assert _run(capsys, "--describe", "--user", "nobody") == (0, quota, "")
    assert _run(capsys, "--describe", "--user-defaults") == (0, quota, "")
    assert _run(capsys, "--describe", "--user", "alice", "--client", "c") == (0, quota, "")
    code, out, _ = _run(capsys, "--describe", "--user", "alice", "--output", "json")
    assert (code, json.loads(out)[1]) == (
        0,
        {"entity": {"user": "alice"}, "scram": {SHA_256: 8192, SHA_512: 4096}},
    )


def test_alter(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    added = "SCRAM-SHA-256=[iterations=8192,password=a],SCRAM-SHA-512=[password=b]"
    done = _run(capsys, "--alter", "--user", "alice", "--add-config", added)
    assert done == (0, "Completed updating config for user alice.\n", "")
    assert admin.set == {"alice": [(SHA_256, 8192, "a"), (SHA_512, 4096, "b")]}
    done = _run(capsys, "--alter", "--user", "alice", "--delete-config", SHA_512)
    assert done == (0, "Completed updating config for user alice.\n", "")
    assert admin.removed == {"alice": [SHA_512]}
    admin.refuse = KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    assert _run(capsys, "--alter", "--user", "alice", "--add-config", added) == (
        1,
        "",
        "Error while executing config command : Too many iterations\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            "--user-defaults --add-config SCRAM-SHA-256=[password=p]",
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
            "Credentials using --bootstrap-server.",
        ),
        (
            "--user u --add-config SCRAM-SHA-256=[password=p],producer_byte_rate=1",
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server.",
        ),
        (
            "--user u --add-config SCRAM-SHA-1=[password=p]",
            "Only quota and SCRAM credential configs can be added for 'users' using "
            "--bootstrap-server. Unexpected config names: SCRAM-SHA-1",
        ),
        (
            "--user u --client c --add-config SCRAM-SHA-256=[password=p]",
            "Only quota configs can be added for 'clients' using --bootstrap-server. Unexpected "
            "config names: SCRAM-SHA-256",
        ),
        (
            "--user u --zookeeper z:1 --bootstrap-server b:1 --delete-config SCRAM-SHA-256",
            "Only one of --bootstrap-server or --zookeeper must be specified",
        ),
    ],
)
def test_what_kafka_configs_refuses_too(
    admin: StandIn, capsys: pytest.CaptureFixture[str], arguments: str, text: str
) -> None:
    code, out, err = _run(capsys, "--alter", *arguments.split())
    assert (code, out, err) == (1, "", text + "\n")
