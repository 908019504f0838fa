"""The vectorised partitioner against the plain one, which is judged by Kafka's clients."""

import random
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.partitioner import partition_of_key
from ottla.spark.sink import partitioner
from ottla.topics.partitioners import murmur2
from tests.support.native import FORMS, in_force


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test here runs on native code and on pure Python."""
    with in_force(request.param):
        yield


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=90, max_size=99)),
        min_size=1,
        max_size=50,
    )
)
def test_hashes_and_partitions_are_those_of_the_plain_partitioner(keys):
    column = pa.array([b"unused", *keys], pa.binary()).slice(1)
    hashes = partitioner.murmur2(column).tolist()
    chosen = partitioner.partitions_of(column, len(keys), 7, sticky=5).tolist()
    for key, value, partition in zip(keys, hashes, chosen, strict=True):
        if key is None:
            assert partition == 5
        else:
            assert value == murmur2(key) & 0xFFFFFFFF
            assert partition == partition_of_key(key, 7)


def test_without_a_key_column_all_rows_stick_together():
    assert partitioner.partitions_of(None, 3, 9, sticky=4).tolist() == [4, 4, 4]


def test_only_empty_keys():
    column = pa.array([b"", b""], pa.binary())
    assert partitioner.partitions_of(column, 2, 9, 0).tolist() == [partition_of_key(b"", 9)] * 2


def random_keys(sizes):
    choice = random.Random(1)
    return [choice.randbytes(size) for size in sizes]


def test_many_keys_of_all_lengths_and_some_long_ones():
    """Enough of them that the short are hashed abreast, and the long go on by themselves."""
    keys = random_keys([*range(300), *[9] * 200, 100_001, 300_002, 262_143, 1 << 19])
    random.Random(2).shuffle(keys)
    hashes = partitioner.murmur2(pa.array(keys, pa.binary())).tolist()
    assert hashes == [murmur2(key) & 0xFFFFFFFF for key in keys]


def test_long_keys_take_time_by_their_bytes():
    """Three keys of 1 MB took 12 s: a step of numpy for each word. 0.05 s on an idle core."""
    column = pa.array(random_keys([1 << 20] * 3), pa.binary())
    began = time.process_time()
    partitioner.murmur2(column)
    assert time.process_time() - began < 2


def test_one_long_key_among_many_short_ones():
    keys = random_keys([*[12] * 50_000, 1 << 20])
    column = pa.array(keys, pa.binary())
    began = time.process_time()
    hashes = partitioner.murmur2(column)
    assert time.process_time() - began < 2
    assert int(hashes[-1]) == murmur2(keys[-1]) & 0xFFFFFFFF


@pytest.mark.parametrize("length", [0, 3, 4, 1001, 70_000])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_keys_of_any_length(length, count):
    """Few long keys and many short ones take ways of their own."""
    if length * count > 1_000_000:
        count = 10
    keys = [bytes((number + at) % 251 for at in range(length)) for number in range(count)]
    column = pa.array(keys, pa.binary())
    expected = [murmur2(key) & 0xFFFFFFFF for key in keys]
    assert partitioner.murmur2(column).tolist() == expected
