"""`ottla bench store` without any server: its rows by name."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.bench import store
from ottla.cli.bench import command


@pytest.mark.parametrize(
    ("only", "rows"),
    [
        ((), {"creates", "pipelined", "multis", "gets", "watches", "client"}),
        (("gets,client",), {"gets", "client"}),
        (("gets", "creates"), {"gets", "creates"}),
    ],
)
def test_rows_by_name(only: tuple[str, ...], rows: set[str]) -> None:
    assert store.chosen(only) == rows


def test_a_row_that_is_none() -> None:
    done = CliRunner().invoke(command, ["store", "--only", "gets,nothing"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no such row: nothing (there are creates, pipelined, multis" in done.stderr
