"""`ottla rename` from arguments to lines."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.cli import main as cli_main
from ottla.client.admin import client as admin_module
from ottla.client.admin.renames import RenamedTopic
from ottla.errors import ErrorCode, KafkaError

Rename = Callable[..., tuple[int, str, str]]


class StandIn:
    """Answers as it is told to."""

    def __init__(self) -> None:
        self.answer: RenamedTopic | KafkaError | None = None
        self.asked: list[tuple[str, str, bool]] = []

    async def __aenter__(self) -> StandIn:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def rename_topic(
        self, topic: str, name: str, *, validate_only: bool
    ) -> RenamedTopic | None:
        self.asked.append((topic, name, validate_only))
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(admin_module.Admin, "connect", lambda *_, **__: stand_in)
    return stand_in


@pytest.fixture
def rename(admin: StandIn, capsys: pytest.CaptureFixture[str]) -> Rename:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli_main.run(["rename", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def renamed(groups: list[str], acls: list[str] | None = None) -> RenamedTopic:
    return RenamedTopic("old", "new", bytes(16), len(groups), 2 * len(groups), groups, acls or [])


def test_what_was_done_and_what_is_left_to_do(admin: StandIn, rename: Rename) -> None:
    admin.answer = renamed(["a", "b"], ["ALLOW READ for User:alice from *"])
    code, out, err = rename("old", "new")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "Topic old is called new now.",
        "Offsets of 2 groups came along (4 partitions): a, b",
        "Whoever uses old gets UNKNOWN_TOPIC_OR_PARTITION: point it at new.",
        "These ACLs are for old and do not hold for new; add them for new and remove the old ones"
        " (ottla acls):",
        "  ALLOW READ for User:alice from *",
    ]
    assert admin.asked == [("old", "new", False)]


def test_a_topic_that_nobody_reads(admin: StandIn, rename: Rename) -> None:
    admin.answer = renamed([])
    assert rename("old", "new")[1].splitlines() == [
        "Topic old is called new now.",
        "Whoever uses old gets UNKNOWN_TOPIC_OR_PARTITION: point it at new.",
    ]


def test_many_groups(admin: StandIn, rename: Rename) -> None:
    admin.answer = renamed([f"g{number}" for number in range(11)])
    assert rename("old", "new")[1].splitlines()[1].endswith("g9, ...")


def test_a_dry_run_and_json(admin: StandIn, rename: Rename) -> None:
    admin.answer = renamed(["a"])
    assert rename("old", "new", "--dry-run") == (0, "Topic old can be renamed to new.\n", "")
    assert admin.asked == [("old", "new", True)]
    told = json.loads(rename("old", "new", "--output", "json")[1])
    assert (told["topic"], told["name"], told["group_ids"]) == ("old", "new", ["a"])


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            None,
            "The controller of this cluster is not Ottla's: Apache Kafka cannot rename a topic.",
        ),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "There is no topic old."),
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'new' already exists."), "Topic 'new'"),
    ],
)
def test_refusals(admin: StandIn, rename: Rename, answer: KafkaError | None, line: str) -> None:
    admin.answer = answer
    code, out, err = rename("old", "new")
    assert (code, out) == (1, "")
    assert line in err
    assert err.count("\n") == 1
