"""The bulk rows of `ottla bench spark` without Spark: their goals and what stands beside them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.bench.spark import cases, sides
from ottla.bench.spark.shapes import PLAIN, SMALL
from ottla.bench.spark.sides import Taken


class Bench:
    """A workbench on which everything takes what the test says."""

    def __init__(self, taken: list[Taken]) -> None:
        self.spark = None
        self.taken = taken
        self.worker_peak_mb = 1.0

    def scaled(self, count: int, least: int = 1_000) -> int:
        return count

    def in_turns(self, work: Any, rounds: int = 2, sides: Any = ()) -> list[Taken]:
        return self.taken


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = cases.BulkCases(Bench([]))  # type: ignore[arg-type]
    monkeypatch.setattr(made, "_source", lambda *_, **__: "topic")
    monkeypatch.setattr(made, "_records", lambda _: None)
    return made


@pytest.mark.parametrize(
    ("key", "goal", "records"),
    [
        ("read", 1.2, 5_000_000),
        ("read-lz4", 1.2, 5_000_000),
        ("write", 1.0, 5_000_000),
        ("write-lz4", 1.0, 5_000_000),
        ("once", 0.8, 5_000_000),
        ("copy", 1.2, 5_000_000),
        ("stream", 1.2, 5_000_000),
        ("read-json", 1.5, 2_000_000),
        ("write-json", 1.5, 2_000_000),
        ("parse", 2.5, 2_000_000),
    ],
)
def test_goals_are_against_the_tuned_connector(
    bulk: Any, key: str, goal: float, records: int
) -> None:
    for ours_s, holds in ((10.0 / goal, True), (10.1 / goal, False)):
        bulk._bench.taken = [Taken(ours_s, 3.0), Taken(10.0, 6.0), Taken(20.0, 7.0)]
        tuned, default, processors = bulk.cases()[key]()
        assert tuned.holds is holds
        assert tuned.peer == records / 10
        assert (default.peer, default.holds) == (records / 20, None)
        assert (processors.ours, processors.peer, processors.ratio) == (3.0, 6.0, 2.0)


def test_the_copier_is_held_to_our_own_copy(bulk: Any) -> None:
    for ours_s, holds in ((10.0, True), (10.1, False)):
        bulk._bench.taken = [Taken(ours_s, 3.0), Taken(10.0, 6.0)]
        rate, processors = bulk.cases()["copier"]()
        assert (rate.peer, rate.holds) == (500_000, holds)
        assert processors.ratio == 2.0


@pytest.mark.parametrize("key", ["long-keys", "partitions"])
def test_rows_without_a_goal_cannot_miss_it(bulk: Any, key: str) -> None:
    bulk._bench.taken = [Taken(100.0, 1.0), Taken(1.0, 1.0), Taken(1.0, 1.0)]
    assert [row.holds for row in bulk.cases()[key]()] == [None, None, None]


def test_headers_are_read_and_written(bulk: Any) -> None:
    bulk._bench.taken = [Taken(1.0, 1.0)] * 3
    assert [row.work.split(",")[0] for row in bulk.cases()["headers"]()][::3] == ["read", "write"]


def test_a_cost_that_grows_misses_its_goal(bulk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {1_000_000: 1e-6, 5_000_000: 0.9e-6, 20_000_000: 1.3e-6}
    monkeypatch.setattr(bulk, "_cost_per_row", costs.__getitem__)
    rows = bulk.cases()["linear"]()
    assert [row.holds for row in rows] == [None, True, False]
    assert rows[0].ours == pytest.approx(1000)


def test_one_source_serves_several_rows() -> None:
    made: list[str] = []

    class Filled(Bench):
        def topic(self, prefix: str, partitions: int) -> str:
            made.append(f"{prefix} of {partitions}")
            return prefix

        def write(self, *_: Any, **__: Any) -> None:
            pass

    bulk: Any = cases.BulkCases(Filled([]))  # type: ignore[arg-type]
    bulk._records = lambda _: None
    bulk._source(PLAIN)
    bulk._source(PLAIN)
    bulk._source(PLAIN, cases.LZ4)
    bulk._source(SMALL, partitions=200)
    assert made == ["source of 4", "source of 4", "source of 200"]


def test_the_sides_differ_in_their_options_alone() -> None:
    assert [side.format for side in sides.SIDES] == ["ottla", "kafka", "kafka"]
    assert not sides.DEFAULT.read and not sides.DEFAULT.write
