from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.copy.planning import FIRST_BATCH, cut, lag, next_size, share_out

OFFSETS = st.dictionaries(st.integers(0, 9), st.integers(0, 1000))


@given(OFFSETS, OFFSETS, st.integers(1, 500))
def test_ranges_go_on_and_end_in_time(
    positions: dict[int, int], ends: dict[int, int], most: int
) -> None:
    ranges = cut(positions, ends, most)
    for partition, (start, end) in ranges.items():
        assert positions[partition] == start < end <= ends[partition]
    waiting = {p for p in positions if ends.get(p, 0) > positions[p]}
    assert ranges.keys() == waiting, "nobody waits for ever"
    assert sum(end - start for start, end in ranges.values()) <= most + 2 * len(ranges)


def test_all_of_it_where_it_fits() -> None:
    assert cut({0: 5, 1: 0}, {0: 10, 1: 3, 2: 9}, 100) == {0: (5, 10), 1: (0, 3)}
    assert lag({0: 5, 1: 0}, {0: 10, 1: 3, 2: 9}) == 17


def test_sizes_follow_the_speed_and_are_bounded() -> None:
    assert next_size(FIRST_BATCH, 0, 1.0) == FIRST_BATCH
    assert next_size(200_000, 200_000, 1.0) == 800_000
    assert next_size(800_000, 800_000, 0.01) == 2_000_000
    assert next_size(1_000_000, 10, 60.0) == 1_000


@given(st.dictionaries(st.integers(0, 50), st.integers(1, 100)), st.integers(1, 8))
def test_everything_has_one_task(weights: dict[int, int], groups: int) -> None:
    made = share_out(weights, groups)
    assert sorted(item for group in made for item in group) == sorted(weights)
    assert len(made) == min(groups, len(weights)) and all(made)


def test_the_heaviest_are_apart() -> None:
    assert share_out({0: 100, 1: 1, 2: 99, 3: 2}, 2) == [[0, 1], [2, 3]]
