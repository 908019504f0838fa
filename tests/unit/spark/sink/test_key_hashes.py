"""Columns of keys are hashed as single keys are."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.sink.key_hashes import key_hashes
from ottla.topics.partitioners import Partitioner, hash_of


def expected(partitioner: Partitioner, keys: list[bytes]) -> list[int]:
    return [hash_of(partitioner, key) for key in keys]


@pytest.mark.parametrize("partitioner", Partitioner)
@given(keys=st.lists(st.binary(max_size=40), max_size=30))
def test_few_keys(partitioner: Partitioner, keys: list[bytes]) -> None:
    assert key_hashes(partitioner, pa.array(keys, pa.binary())).tolist() == expected(
        partitioner, keys
    )


@pytest.mark.parametrize("partitioner", Partitioner)
def test_many_keys_of_all_lengths_and_a_slice_of_them(partitioner: Partitioner) -> None:
    rng = random.Random(18)
    keys = [rng.randbytes(rng.choice([0, 1, 3, 8, 16, 17, 40, 300])) for _ in range(2000)]
    keys.append(rng.randbytes(100_000))
    column = pa.array(keys, pa.binary())
    assert key_hashes(partitioner, column).tolist() == expected(partitioner, keys)
    part = column.slice(7, 1500)
    assert key_hashes(partitioner, part).tolist() == expected(partitioner, keys[7:1507])


@pytest.mark.parametrize("partitioner", Partitioner)
def test_nulls_do_not_disturb_their_neighbours(partitioner: Partitioner) -> None:
    column = pa.array([None, b"a", None, b"bc"] * 100, pa.binary())
    found = key_hashes(partitioner, column).tolist()
    assert found[1] == hash_of(partitioner, b"a") and found[399] == hash_of(partitioner, b"bc")
