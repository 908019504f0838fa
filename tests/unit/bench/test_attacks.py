"""What `ottla bench attacks` makes of what it saw; the attacks themselves are in tests/attacks."""

from __future__ import annotations

import pytest

from ottla.bench.attack_cases import Attack, Traffic
from ottla.bench.attack_witness import Seen, with_those_between
from ottla.bench.attacks import ATTACKS, Measured, row_of
from ottla.cli import main as cli_main

ATTACK = Attack("rude", "a rude thing", "1 s", lambda side, stack: Traffic(0))


def _row(waits_ms: list[float], failures: int = 0) -> tuple[str, float, bool | None]:
    measured = Measured(0.5, 10.0, 1.0, Traffic(145, 2000), Seen(waits_ms, failures))
    row = row_of(ATTACK, measured)
    return row.work, row.ours, row.holds


def test_a_wait_counts_for_those_who_came_meanwhile() -> None:
    assert with_those_between(0.035) == pytest.approx([0.035, 0.025, 0.015, 0.005])
    assert with_those_between(0.004) == [0.004]


def test_quantiles_of_few_and_of_none() -> None:
    assert Seen([1.0, 2.0, 3.0], 0).quantile(0.5) == 2.0
    assert Seen([1.0, 2.0, 3.0], 0).quantile(1) == 3.0
    assert Seen([], 0).quantile(0.99) == 0.0


def test_a_row_holds_where_the_slowest_in_a_hundred_wait_little() -> None:
    work, p99, holds = _row([1.0] * 99 + [90.0])
    assert (p99, holds) == (90.0, True)
    assert work == (
        "rude: a rude thing (p50 1.0 ms, longest 90 ms; the server: 0.50 s, +10 MB, "
        "0.1 KB in, 2.0 KB out)"
    )
    assert _row([1.0] * 98 + [150.0] * 2)[1:] == (150.0, False)


def test_a_request_that_failed_misses_the_goal() -> None:
    work, _, holds = _row([1.0], failures=2)
    assert holds is False
    assert work.endswith("2 failed)")


def test_an_unknown_row_lists_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["bench", "attacks", "--only", "nothing"]) == 1
    said = capsys.readouterr().err
    assert "no such row: nothing (there are create-topics, " in said


def test_every_attack_has_a_name_of_its_own() -> None:
    assert len({attack.title for attack in ATTACKS.values()}) == len(ATTACKS)
