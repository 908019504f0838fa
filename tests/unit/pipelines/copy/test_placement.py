from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.pipelines.copy.placement import Placement
from ottla.topics.partitioners import Partitioner, hash_of, partition_of

KEYS = [b"a", None, b"", b"user-17", None, b"user-4711"]


@pytest.mark.parametrize("partitioner", Partitioner)
def test_keys_go_where_clients_put_them_and_the_rest_stays_together(
    partitioner: Partitioner,
) -> None:
    found = Placement(partitioner, 12, 5).places(pa.array(KEYS, pa.binary()), 8)
    for key, target in zip(KEYS, found.targets.tolist(), strict=True):
        # Clients put a record without a key into partition 0 with crc32: here it stays in order.
        wanted = None if key is None else partition_of(partitioner, key, 5)
        assert target == (8 % 5 if wanted is None else wanted)


def test_a_slice_of_a_column() -> None:
    keys = pa.array([b"x", *KEYS], pa.binary()).slice(1)
    found = Placement(Partitioner.CONSISTENT_RANDOM, 12, 5).places(keys, 8)
    assert found.targets[2] == 3, "an empty key is none"


def test_records_that_another_partitioner_has_placed_are_counted() -> None:
    keys = [b"%d" % number for number in range(100)]
    for source in range(3):
        own = [key for key in keys if hash_of(Partitioner.CRC32, key) % 3 == source]
        column = pa.array([*own, None], pa.binary())
        assert Placement(Partitioner.CRC32, 3, 5).places(column, source).misplaced == 0
        assert Placement(Partitioner.MURMUR2, 3, 5).places(column, source).misplaced > 10


def test_without_a_partitioner_all_stay() -> None:
    found = Placement(None, 3, 3).places(pa.array(KEYS, pa.binary()), 2)
    assert found.targets.tolist() == [2] * 6 and found.misplaced == 0
