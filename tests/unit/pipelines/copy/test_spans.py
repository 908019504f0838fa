from __future__ import annotations

from itertools import pairwise

from ottla.pipelines.copy.spans import Span, thinned


def batches(count: int) -> list[Span]:
    return [Span(10 * n, 10 * n + 9, 4 * n, 4 * n + 3, 4) for n in range(count)]


def test_few_stay_as_they_are() -> None:
    assert thinned(batches(3), 3) == batches(3)
    assert thinned([], 3) == []


def test_old_ones_are_joined_and_none_is_lost() -> None:
    for count in range(1, 200):
        for most in (1, 2, 3, 7, 64):
            found = thinned(batches(count), most)
            assert len(found) <= most
            assert sum(span.records for span in found) == 4 * count
            assert found[0].first == 0 and found[-1].last == 10 * count - 1
            assert all(a.last < b.first for a, b in pairwise(found))
    assert thinned(batches(100), 60)[-1] == batches(100)[-1], "the newest stay fine"
