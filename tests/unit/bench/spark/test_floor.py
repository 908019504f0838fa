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
    assert floor.micro_batches(query) == [300.0, 200.0]


def test_a_query_that_does_not_end_is_stopped() -> None:
    query: Any = Query(done=False)
    with pytest.raises(OttlaError, match="not done in 600 s"):
        floor.micro_batches(query)
    assert query.stopped


@pytest.mark.parametrize(("ours", "once", "holds"), [(70, 100, True), (71, 101, False)])
def test_goals_are_against_the_faster_of_the_connectors(
    ours: float, once: float, holds: bool
) -> None:
    found = [Floor(ours, 1), Floor(once, 1), Floor(30, 1), Floor(40, 1)]
    found += [Floor(200, 1), Floor(100, 1), Floor(50, 1)]
    rows = floor.rows_of(found, 30)
    assert [row.holds for row in rows[:2]] == [holds, holds]
    assert rows[0].peer == 100
    assert [(row.ours, row.peer) for row in rows[2:6]] == [
        (30, 100),
        (40, 100),
        (ours, 200),
        (50, 100),
    ]
