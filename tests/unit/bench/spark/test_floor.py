"""The floor of a micro-batch without Spark: which figures count, and beside whom."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.bench.spark import floor
from ottla.bench.spark.floor import Floor
from ottla.errors import OttlaError


class Query:
    def __init__(self, done: bool) -> None:
        self.done = done
        self.stopped = False
        self.recentProgress = [
            {"numInputRows": 40, "durationMs": {"triggerExecution": 300}},
            {"numInputRows": 0, "durationMs": {"triggerExecution": 1}},
            {"numInputRows": 40, "durationMs": {"triggerExecution": 200}},
        ]

    def awaitTermination(self, timeout: int) -> bool:
        return self.done

    def stop(self) -> None:
        self.stopped = True


def test_a_micro_batch_without_records_is_none() -> None:
    query: Any = Query(done=True)
    assert [times["triggerExecution"] for times in floor.micro_batches(query)] == [300.0, 200.0]


def test_a_query_that_does_not_end_is_stopped() -> None:
    query: Any = Query(done=False)
    with pytest.raises(OttlaError, match="not done in 600 s"):
        floor.micro_batches(query)
    assert query.stopped


def test_a_floor_is_the_median_of_each_phase() -> None:
    batches = [{"triggerExecution": whole, "addBatch": whole - 10} for whole in (30.0, 50.0, 90.0)]
    found = floor.floor_of(batches, 7)
    assert (found.p50_ms, found.cpu_ms) == (50, 7)
    assert found.phases_ms["addBatch"] == 40
    assert found.phases_ms["walCommit"] == 0, "a phase that Spark does not report takes no time"


def _floor(milliseconds: float) -> Floor:
    return Floor(milliseconds, 1, dict.fromkeys(floor.PHASES, milliseconds))


@pytest.mark.parametrize(("ours", "once", "holds"), [(70, 100, True), (71, 101, False)])
def test_goals_are_against_the_faster_of_the_connectors_in_plain_spark(
    ours: float, once: float, holds: bool
) -> None:
    in_our_session = [60, 65]
    sides = [ours, once, 30, 40, 50, *in_our_session, 200, 100]
    rows = floor.rows_of([_floor(one) for one in sides], 30)
    assert [row.holds for row in rows[:2]] == [holds, holds]
    assert [(row.ours, row.peer) for row in rows[:4]] == [
        (ours, 100),
        (once, 100),
        (30, 100),
        (40, 100),
    ]
    assert [(row.ours, row.peer) for row in rows[4:8]] == [
        (ours, 60),
        (once, 60),
        (30, 60),
        (50, 60),
    ], "beside the connector in the same session, nothing is hidden"
    assert all(row.holds is None for row in rows[2:])
