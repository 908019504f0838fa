"""Somebody who asks for a command that there is not hears what to do next."""

from __future__ import annotations

import pytest

from ottla.cli import main as cli_main
from ottla.cli.hints import OTHER_NAMES, likely_command

KNOWN = list(cli_main.COMMANDS)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("topic", "topics"),
        ("kafka-topics.sh", "topics"),
        ("kafka-console-consumer", "consume"),
        ("dump_log", "dump-log"),
        ("stop", "down"),
        ("UP", "up"),
        ("frobnicate", None),
    ],
)
def test_what_was_meant(asked: str, meant: str | None) -> None:
    assert likely_command(asked, KNOWN) == meant


def test_other_names_hide_no_command() -> None:
    assert set(OTHER_NAMES).isdisjoint(KNOWN)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["topic"], "No such command 'topic'. Did you mean 'topics'?\n"),
        (["frobnicate"], "No such command 'frobnicate'. `ottla --help` lists all.\n"),
        (["pipeline", "chek", "x"], "No such command 'chek'. Did you mean 'check'?\n"),
        (["pipeline", "zzz"], "No such command 'zzz'. `ottla pipeline --help` lists all.\n"),
    ],
)
def test_the_hint_is_in_the_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_main.run(arguments) == 1
    assert capsys.readouterr().err == line
