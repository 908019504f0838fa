"""Positions of groups in a copy: nothing is skipped, and what may be read again is counted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.copy.spans import Span, thinned
from ottla.pipelines.copy.translation import translate

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
    carried = translate(committed, spans, ends)
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
    carried = translate(dict.fromkeys(range(4), 1_000), spans, ends)
    assert carried.offsets == ends
    assert carried.is_exact


@given(copy=copies())
def test_a_group_that_has_read_nothing_reads_nothing_twice(copy: Any) -> None:
    placed, spans = copy
    ends = {target: max(records, default=-1) + 1 for target, records in placed.items()}
    carried = translate({}, spans, ends)
    assert carried.is_exact
    for target, records in placed.items():
        assert carried.offsets[target] <= min(records, default=ends[target])


@given(records=st.integers(1, 500), position=st.integers(0, 500), most=st.integers(1, 5))
def test_where_partitions_stay_as_they_are_every_position_is_exact(
    records: int, position: int, most: int
) -> None:
    batches = [Span(at, at, at + 7, at + 7, 1) for at in range(records)]
    carried = translate({0: position}, {(0, 0): thinned(batches, most)}, {0: records + 7})
    assert carried == ({0: min(position, records) + 7}, 0)


def test_the_count_is_of_records_and_not_of_offsets() -> None:
    spans = {(0, 0): [Span(0, 99, 0, 9, 10)], (1, 0): [Span(0, 9, 10, 19, 10)]}
    # Somewhere in the first span: one of its ten records may be read at the least, all at most.
    assert translate({0: 50, 1: 10}, spans, {0: 20}) == ({0: 0}, 20)
    assert translate({0: 3, 1: 0}, spans, {0: 20}) == ({0: 0}, 3)
    assert translate({0: 100, 1: 4}, spans, {0: 20}) == ({0: 14}, 0)


def test_several_targets_share_what_was_read() -> None:
    spans = {(0, t): [Span(t, 97 + t, 0, 32, 33)] for t in range(3)}
    assert translate({0: 20}, spans, dict.fromkeys(range(3), 33)).again == 20
