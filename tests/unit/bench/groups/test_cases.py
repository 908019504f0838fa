"""The rows on many groups, without any cluster."""

from __future__ import annotations

import pytest

from ottla.bench.data_cases import Sample
from ottla.bench.groups.cases import Groups, groups

PEER = (10_000.0, 5.0, 20.0, 40.0, 0.5, 1.0, 9.0, 20_000.0, 25.0, 3.0, 300.0)


def rows_of(values: tuple[float, ...]) -> list[bool]:
    rows = Groups().rows(1, Sample(values, 1, 50), Sample(PEER, 1, 500))
    return [row.holds for row in rows if row.holds is not None]


def test_goals() -> None:
    assert rows_of(PEER) == [True] * 5
    assert rows_of(tuple(1.01 * value for value in PEER)) == [False] * 5


@pytest.mark.parametrize(("scale", "count"), [(1, 1_000), (0.1, 100), (0.0001, 2)])
def test_groups_are_even_in_number(scale: float, count: int) -> None:
    assert groups(scale) == count
