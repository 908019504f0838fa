"""The goals of `ottla bench topics`, judged on figures that are made up."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ottla.bench import topics
from ottla.bench.simulated_failover import simulated_failover
from ottla.bench.table import exit_code
from ottla.cli.bench import command

OURS = topics.Small(
    single_ms=10.0,
    cold_rate=5_000.0,
    warm_rate=9_000.0,
    cold_answer_rate=6_000.0,
    warm_answer_rate=9_500.0,
    cpu_ms=0.2,
)


@pytest.mark.parametrize(
    ("single_ms", "cold_rate", "holds"), [(40.0, 2_500.0, True), (39.9, 2_501.0, False)]
)
def test_goals_against_kafka_4(single_ms: float, cold_rate: float, holds: bool) -> None:
    peer = OURS._replace(single_ms=single_ms, cold_rate=cold_rate)
    rows = topics._small_rows(OURS, peer, None)
    assert [row.holds for row in rows] == [holds, holds, True, None, None, True]
    assert exit_code(rows) == (0 if holds else 1)


def test_without_peers_nothing_is_judged_against_them() -> None:
    rows = topics._small_rows(OURS, None, None)
    assert [row.holds for row in rows] == [None, None, True, None, None, True], "what is absolute"
    assert {row.peer for row in rows} == {None}


def test_the_old_peer_adds_its_rows() -> None:
    rows = topics._small_rows(OURS, None, OURS._replace(single_ms=62.0))
    assert len(rows) == 9
    assert rows[6].ratio == pytest.approx(6.2)


@pytest.mark.parametrize(
    ("growth", "restart_s", "code"), [(1.5, 1.9, 0), (1.6, 1.9, 1), (1.0, 2.0, 1)]
)
def test_goals_of_many_topics_are_absolute(growth: float, restart_s: float, code: int) -> None:
    many = topics.Many(5_000, 10.0, growth, 60.0, restart_s, 1.0, 1.0, 5.0, 1.0)
    rows = topics._many_rows(many, None)
    assert exit_code(rows) == code
    assert rows[0].ours == pytest.approx(2.0), "milliseconds per topic"


def test_a_smaller_peer_is_named() -> None:
    many = topics.Many(5_000, 10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0, 1.0)
    rows = topics._many_rows(many, many._replace(topics=4_500))
    assert "(4.1: 4,500)" in rows[0].work


@pytest.mark.parametrize(
    ("only", "rows"),
    [((), set(topics.ALL)), (("many,placement",), {"many", "placement"}), (("few",), {"few"})],
)
def test_rows_by_name(only: tuple[str, ...], rows: set[str]) -> None:
    assert topics.chosen(only) == rows


def test_a_row_that_is_none() -> None:
    done = CliRunner().invoke(command, ["topics", "--only", "some"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"no such row: some (there are {', '.join(topics.ALL)})" in done.stderr


@pytest.mark.parametrize(("seconds", "holds"), [(0.9, True), (1.0, False)])
def test_goal_of_the_failover(seconds: float, holds: bool) -> None:
    assert topics._failover_row(seconds, None).holds is holds


def test_what_is_made_in_bulk_has_absolute_goals() -> None:
    slow = topics._small_rows(OURS._replace(warm_rate=4_999.0, cpu_ms=0.21), None, None)
    assert [row.holds for row in slow] == [None, None, False, None, None, False]


def test_a_simulated_failover() -> None:
    taken = simulated_failover(200)
    assert 0 < taken.virtual_s < 5
    assert taken.cpu_s > 0
