"""What is there already is left out, whatever the source has lost meanwhile."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipelines.copy.alignment import Alignment


def known(there: list[int], chunks: list[list[int]]) -> int:
    aligned = Alignment(np.array(there, np.uint64))
    return sum(aligned.known(np.array(chunk, np.uint64)) for chunk in chunks)


def cut(values: list[int], sizes: list[int]) -> list[list[int]]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(values[at : at + size])
        at += size
    return [*chunks, values[at:]]


SIZES = st.lists(st.integers(1, 7), max_size=6)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30), SIZES)
def test_the_first_ones_are_there(values: list[int], written: int, sizes: list[int]) -> None:
    """Also where many are alike."""
    there = values[:written]
    assert known(there, cut(values, sizes)) == len(there)


@given(st.integers(0, 30), st.integers(0, 30), st.sets(st.integers(0, 29)), SIZES)
def test_some_are_gone_from_the_source(
    total: int, written: int, gone: set[int], sizes: list[int]
) -> None:
    there = list(range(min(written, total)))
    left = [value for value in range(total) if value not in gone]
    expected = [value for value in left if value < written]
    assert known(there, cut(left, sizes)) == len(expected)
