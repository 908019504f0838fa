"""Rows on connections without any cluster: goals, what is worst, and what cannot be measured."""

from __future__ import annotations

import pytest

from ottla.bench import data
from ottla.bench.connections import generator
from ottla.bench.connections.cases import CASES, Brokers, Figures, checked, figures
from ottla.bench.connections.generator import Found, GeneratorFailed
from ottla.bench.data_cases import Case, Sample

KAFKA = Figures(30_000, 60, 20, 1, 40, 15, 7, 70_000, 6, 0, 1.5)
FOUND = Found(100, 10, 1, 2, 3, 2, 0.5, 10, 15, 0, 0, 7, 50, 20)


def case(key: str) -> Case:
    return next(case for case in CASES if case.key == key)


def sample(values: Figures) -> Sample:
    return Sample(tuple(values), 1, 1)


def verdicts(key: str, ours: Figures) -> dict[str, bool | None]:
    rows = case(key).rows(1, sample(ours), sample(KAFKA))
    return {row.work.strip().split(" (")[0].split(",")[0]: row.holds for row in rows if row.goal}


def test_goals_of_one_broker() -> None:
    rate = "1"  # of `1,000 connections`
    met = KAFKA._replace(requests_per_s=18_000, broker_us=40, p99_ms=900, spread=2)
    assert set(verdicts("connections-1000", met).values()) == {True}
    slow = verdicts("connections-1000", met._replace(requests_per_s=17_999))
    assert [name for name, holds in slow.items() if not holds] == [rate]
    dear = verdicts("connections-1000", met._replace(broker_us=40.1))
    assert [name for name, holds in dear.items() if not holds] == ["broker CPU per request"]


@pytest.mark.parametrize("key", [one.key for one in CASES if one.key.startswith("connections")])
def test_nobody_starves_whatever_the_number(key: str) -> None:
    starved = KAFKA._replace(never_answered=1, spread=2.1, first_answer_p99_ms=61)
    holds = verdicts(key, starved)
    assert not holds["never answered"]
    assert not holds["most answers on a connection over least"]
    assert not holds["first answer of a connection"]


def test_goals_of_three_brokers() -> None:
    assert set(verdicts("connections-1000x3", KAFKA).values()) == {True}
    assert not verdicts("connections-1000x3", KAFKA._replace(p99_ms=60.1))["p99"]
    assert not verdicts("connections-1000x3", KAFKA._replace(requests_per_s=29_999))["1"]


def test_one_round_in_which_somebody_starved_is_not_outvoted() -> None:
    rounds = [sample(KAFKA), sample(KAFKA._replace(never_answered=300, spread=9)), sample(KAFKA)]
    whole = Figures(*case("connections-50").combine(rounds).values)
    assert (whole.never_answered, whole.spread) == (300, 9)
    assert whole.requests_per_s == KAFKA.requests_per_s


def test_a_connection_without_an_answer_is_no_division_by_zero() -> None:
    assert figures(FOUND._replace(least_answers=0), FOUND).spread == 15
    assert figures(FOUND._replace(connected_all_s=None), FOUND).connected_all_s == (
        generator.CONNECT_S
    )


@pytest.mark.parametrize("bad", [FOUND._replace(failures=1), FOUND._replace(requests=0)])
def test_a_run_with_wrong_answers_measures_nothing(bad: Found) -> None:
    assert checked(FOUND) is FOUND
    with pytest.raises(GeneratorFailed, match="were answered well"):
        checked(bad)


def test_more_brokers_and_more_cores_by_model() -> None:
    ours = Sample((9_000, 100, 10, 12_000, 100, 10, 13_000, 100, 10), 1, 1)
    rows = Brokers().rows(1, ours, ours)
    model = {row.work: row.ours for row in rows if "8 cores" in row.work}
    assert list(model.values()) == pytest.approx([10_000, 80_000])
    assert [row.ours for row in rows[0:9:3]] == [9_000, 12_000, 13_000]


def test_without_the_generator_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generator, "BUILT", generator.BUILT / "missing")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(data, "missing_reason", lambda _: None)
    # It is looked for before any side is started; making one would need Java.
    monkeypatch.setattr(data, "OttlaData", UnusedSide)
    monkeypatch.setattr(data, "KraftData", UnusedSide)
    assert data.run(["connections-50"]) == ([], 1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == (
        "connections-50 could not be measured: ottla-load, the load generator, is not built: "
        "`make setup` does it (needs cargo)"
    )


class UnusedSide:
    def __init__(self, *_: object, tls: bool) -> None: ...

    def __enter__(self) -> UnusedSide:
        return self

    def __exit__(self, *_: object) -> None: ...
