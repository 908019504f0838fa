"""The rows on reads, without any cluster."""

from __future__ import annotations

from ottla.bench.data_cases import Sample
from ottla.bench.reads.cases import Cold, Fanout


def test_goals_of_ten_consumers() -> None:
    peer = Sample((1000.0, 500.0, 0.5), 1, 500)
    rows = Fanout().rows(1, Sample((1000.0, 500.0, 0.1), 1, 50), peer)
    assert [row.holds for row in rows] == [True, True, None, None]
    rows = Fanout().rows(1, Sample((999.0, 501.0, 0.1), 1, 50), peer)
    assert [row.holds for row in rows] == [False, False, None, None]


def test_goals_beside_a_scan() -> None:
    peer = Sample((1.0, 9.0, 600.0), 1, 500)
    rows = Cold().rows(1, Sample((1.0, 9.1, 64.0), 1, 50), peer)
    assert [row.holds for row in rows] == [True, False, None, None]
