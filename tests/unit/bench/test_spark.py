"""`ottla bench spark` without Spark: which rows there are, their turns and their goals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.bench import spark
from ottla.config.catalog import broker_definitions
from ottla.errors import OttlaError


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    nobody: Any = None
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", lambda _: nobody)
    return spark._Bench(nobody, "localhost:1", Path(), scale=1.0)


@pytest.mark.parametrize(
    ("key", "goal"),
    [
        ("read", 1.2),
        ("read-lz4", 1.2),
        ("write", 1.0),
        ("write-lz4", 1.0),
        ("once", 0.8),
        ("copy", 1.2),
        ("stream", 1.2),
    ],
)
def test_goals_are_against_the_connector(
    bench: Any, monkeypatch: pytest.MonkeyPatch, key: str, goal: float
) -> None:
    monkeypatch.setattr(bench, "_source", lambda *_: "topic")
    monkeypatch.setattr(bench, "_records", lambda _: None)
    for ours_s, holds in ((10.0 / goal, True), (10.1 / goal, False)):
        monkeypatch.setattr(bench, "_both", lambda *_, ours_s=ours_s: (ours_s, 10.0))
        (row,) = bench.measure(key)
        assert row.holds is holds
        assert row.peer == 500_000, "five million rows in ten seconds"


def test_the_first_of_a_round_changes_and_the_warm_up_does_not_count(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_note_workers", lambda: None)
    order = []
    seconds = {"ottla": iter([100.0, 1.0, 3.0]), "kafka": iter([200.0, 5.0, 7.0])}

    def work(kind: str) -> float:
        order.append(kind)
        return next(seconds[kind])

    assert bench._both(work) == (2.0, 6.0)
    assert order == ["ottla", "kafka", "kafka", "ottla", "ottla", "kafka"]


def test_one_slow_round_of_five_does_not_count(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_note_workers", lambda: None)
    taken = {"ottla": iter([9.0, 2.0, 8.0, 2.0, 3.0, 2.0]), "kafka": iter([9.0] * 6)}
    assert bench._both(lambda kind: next(taken[kind]), rounds=5) == (2.0, 9.0)


def test_a_cost_that_grows_misses_its_goal(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {1_000_000: 1e-6, 5_000_000: 0.9e-6, 20_000_000: 1.3e-6}
    monkeypatch.setattr(bench, "_cost_per_row", costs.__getitem__)
    rows = bench.measure("linear")
    assert [row.holds for row in rows] == [None, True, False]
    assert rows[0].ours == pytest.approx(1000)


def test_what_was_not_written_is_no_result(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_topic", lambda prefix: prefix)
    monkeypatch.setattr(bench, "_record_count", lambda _: 999)
    words = "written has 999 records, it should have 1,000"
    with pytest.raises(OttlaError, match=words), bench._target("written", 1_000):
        pass


def test_the_broker_knows_its_settings() -> None:
    assert set(spark.BROKER_SETTINGS) <= set(broker_definitions())


def test_an_unknown_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "missing_reason", lambda: None)
    with pytest.raises(OttlaError, match="no such row: fast"):
        spark.main(only=["read,fast"])
