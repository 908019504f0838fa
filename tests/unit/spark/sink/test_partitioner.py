"""The vectorised partitioner against the plain one, which is judged by Kafka's clients."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.partitioner import murmur2, partition_of_key
from ottla.spark.sink import partitioner


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=50))
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
