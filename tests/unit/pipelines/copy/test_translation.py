"""Positions of groups in a copy: nothing is skipped, and what may be read again is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.copy.spans import Span, thinned
from ottla.pipelines.copy.translation import (
    Carried,
    SpanMap,
    Translation,
    _first_unread,
    _read_behind,
)

# (source partition, source offset), at its offset in a target partition.
Placed = dict[int, dict[int, tuple[int, int]]]


@st.composite
def copies(draw: st.DrawFn) -> tuple[Placed, dict[tuple[int, int], list[Span]]]:
    """Source partitions with holes, records of foreign producers in the target, batches of any
    size, and as few spans as may be kept."""
    sources, targets = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    next_source = dict.fromkeys(range(sources), 0)
    next_target = dict.fromkeys(range(targets), 0)
    placed: Placed = {target: {} for target in range(targets)}
    spans: dict[tuple[int, int], list[Span]] = {}
    for _ in range(draw(st.integers(0, 25))):
        source, target = draw(st.integers(0, sources - 1)), draw(st.integers(0, targets - 1))
        next_target[target] += draw(st.integers(0, 1))
        begin, count = next_target[target], draw(st.integers(1, 4))
        offsets = []
        for index in range(count):
            next_source[source] += draw(st.integers(0, 2))
            offsets.append(next_source[source])
            placed[target][begin + index] = (source, next_source[source])
            next_source[source] += 1
        next_target[target] += count
        span = Span(offsets[0], offsets[-1], begin, begin + count - 1, count)
        spans.setdefault((source, target), []).append(span)
    most = draw(st.integers(1, 6))
    return placed, {pair: thinned(found, most) for pair, found in spans.items()}


@given(copy=copies(), data=st.data())
def test_nothing_is_skipped_and_what_is_read_again_is_counted(copy: Any, data: Any) -> None:
    placed, spans = copy
    ends = {target: max(records, default=-1) + 1 for target, records in placed.items()}
    committed = data.draw(st.dictionaries(st.integers(0, 3), st.integers(0, 80)))
    carried = Translation(spans, ends).carry(committed)
    assert carried.offsets.keys() == ends.keys()
    again = 0
    for target, records in placed.items():
        for at, (source, offset) in records.items():
            read = offset < committed.get(source, 0)
            goes_on = at >= carried.offsets[target]
            assert read or goes_on, f"{source}-{offset} at {target}-{at} is skipped"
            again += read and goes_on
    assert again <= carried.again


@given(copy=copies())
def test_a_group_that_has_read_all_goes_on_at_the_ends(copy: Any) -> None:
    placed, spans = copy
    ends = {target: max(records, default=-1) + 1 for target, records in placed.items()}
    carried = Translation(spans, ends).carry(dict.fromkeys(range(4), 1_000))
    assert carried.offsets == ends
    assert carried.is_exact


@given(copy=copies())
def test_a_group_that_has_read_nothing_reads_nothing_twice(copy: Any) -> None:
    placed, spans = copy
    ends = {target: max(records, default=-1) + 1 for target, records in placed.items()}
    carried = Translation(spans, ends).carry({})
    assert carried.is_exact
    for target, records in placed.items():
        assert carried.offsets[target] <= min(records, default=ends[target])


@given(records=st.integers(1, 500), position=st.integers(0, 500), most=st.integers(1, 5))
def test_where_partitions_stay_as_they_are_every_position_is_exact(
    records: int, position: int, most: int
) -> None:
    batches = [Span(at, at, at + 7, at + 7, 1) for at in range(records)]
    spans = {(0, 0): thinned(batches, most)}
    carried = Translation(spans, {0: records + 7}).carry({0: position})
    assert carried == ({0: min(position, records) + 7}, 0)


def test_the_count_is_of_records_and_not_of_offsets() -> None:
    spans = {(0, 0): [Span(0, 99, 0, 9, 10)], (1, 0): [Span(0, 9, 10, 19, 10)]}
    # Somewhere in the first span: one of its ten records may be read at the least, all at most.
    translation = Translation(spans, {0: 20})
    assert translation.carry({0: 50, 1: 10}) == ({0: 0}, 20)
    assert translation.carry({0: 3, 1: 0}) == ({0: 0}, 3)
    assert translation.carry({0: 100, 1: 4}) == ({0: 14}, 0)


def test_several_targets_share_what_was_read() -> None:
    spans = {(0, t): [Span(t, 97 + t, 0, 32, 33)] for t in range(3)}
    assert Translation(spans, dict.fromkeys(range(3), 33)).carry({0: 20}).again == 20


def from_scratch(committed: Mapping[int, int], spans: SpanMap, ends: Mapping[int, int]) -> Carried:
    """The same for one group alone, with a look at every pair for every target."""
    offsets: dict[int, int] = {}
    again: dict[int, int] = {}
    for target, end in ends.items():
        pairs = {s: found for (s, t), found in spans.items() if t == target and found}
        bounds = [_first_unread(found, committed.get(s, 0)) for s, found in pairs.items()]
        offsets[target] = min((bound for bound in bounds if bound is not None), default=end)
        for source, found in pairs.items():
            behind = _read_behind(found, committed.get(source, 0), offsets[target])
            again[source] = again.get(source, 0) + behind
    total = 0
    for source, count in again.items():
        first = min(found[0].first for (s, _), found in spans.items() if s == source and found)
        total += min(count, max(committed.get(source, 0) - first, 0))
    return Carried(offsets, total)


@given(copy=copies(), data=st.data())
def test_every_group_is_carried_as_if_it_were_the_only_one(copy: Any, data: Any) -> None:
    placed, spans = copy
    spans[0, 5] = []
    ends = {target: max(records, default=-1) + 1 for target, records in placed.items()}
    translation = Translation(spans, ends)
    positions = st.dictionaries(st.integers(0, 3), st.integers(0, 80))
    for committed in data.draw(st.lists(positions, min_size=1, max_size=4)):
        assert translation.carry(committed) == from_scratch(committed, spans, ends)


class Counted(dict[tuple[int, int], list[Span]]):
    """How often all pairs were gone through."""

    rounds = 0

    def items(self) -> Any:
        self.rounds += 1
        return super().items()


def test_all_pairs_are_gone_through_once_however_many_groups_there_are() -> None:
    """A topic that is resized takes no records meanwhile."""
    spans = Counted(
        {(s, t): [Span(0, 9, 10 * s, 10 * s + 9, 10)] for s in range(8) for t in (0, 1)}
    )
    translation = Translation(spans, {0: 80, 1: 80})
    for group in range(50):
        translation.carry(dict.fromkeys(range(8), group % 10))
    assert spans.rounds == 1
