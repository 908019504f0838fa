from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.copy.order import OrderDigest, by_group, digest_of

HASHES = st.lists(st.integers(0, (1 << 64) - 1), max_size=40)


def digest(values: list[int]) -> OrderDigest:
    return digest_of(np.array(values, np.uint64))


@given(HASHES, st.integers(0, 40), st.integers(0, 40))
def test_pieces_make_the_whole(values: list[int], one: int, other: int) -> None:
    first, second = sorted((one, other))
    pieces = [values[:first], values[first:second], values[second:]]
    joined = OrderDigest()
    for piece in pieces:
        joined = joined.then(digest(piece))
    assert joined == digest(values)


@given(HASHES, st.integers(0, 38))
def test_two_that_change_places_are_seen(values: list[int], at: int) -> None:
    swapped = list(values)
    swapped[at : at + 2] = reversed(swapped[at : at + 2])
    assert (digest(swapped) == digest(values)) == (swapped == values)


def test_one_that_is_missing_or_twice_is_seen() -> None:
    values = [7, 7, 7, 8]
    assert len({digest(v) for v in (values, values[1:], [7, *values], [*values, 8])}) == 4


@given(st.lists(st.integers(0, 100_000), max_size=60))
def test_rows_of_a_group_keep_their_order(groups: list[int]) -> None:
    found = dict(by_group(np.array(groups, np.int64)))
    assert found.keys() == set(groups)
    for group, places in found.items():
        assert places.tolist() == [n for n, one in enumerate(groups) if one == group]
