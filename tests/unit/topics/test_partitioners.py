"""Known answers of the clients' own tests, and what they do without a key."""

from __future__ import annotations

import pytest

from ottla.topics.partitioners import (
    Partitioner,
    fnv1a,
    hash_of,
    partition_of,
    sarama_reference_partition,
    without_sign,
)

# From librdkafka's rdfnv1a.c, which has them from Go's hash/fnv.
FNV1A = [(b"kafka", 0xD33C4E1), (b"giberish123456789", 0x77A58295), (b"", 0x7EE3623B)]


@pytest.mark.parametrize(("key", "expected"), FNV1A)
def test_fnv1a_as_librdkafka_has_it(key: bytes, expected: int) -> None:
    assert hash_of(Partitioner.FNV1A, key) == expected


def test_the_smallest_number_keeps_its_bits() -> None:
    assert without_sign(0x80000000) == 0x80000000
    assert without_sign(0xFFFFFFFF) == 1
    assert without_sign(5) == 5


def test_sarama_has_two_ways_with_the_sign() -> None:
    keys = [b"%d" % number for number in range(1000)]
    for key in keys:
        # Go: int32(sum) % n, then -partition where it is negative.
        signed = fnv1a(key) - (1 << 32) if fnv1a(key) >> 31 else fnv1a(key)
        remainder = abs(signed) % 7
        assert partition_of(Partitioner.FNV1A, key, 7) == remainder
    elsewhere = sum(
        partition_of(Partitioner.FNV1A, key, 7) != sarama_reference_partition(key, 7)
        for key in keys
    )
    assert 300 < elsewhere < 600, "half of the keys have the sign bit"


def test_crc32() -> None:
    assert hash_of(Partitioner.CRC32, b"123456789") == 0xCBF43926
    assert hash_of(Partitioner.CONSISTENT_RANDOM, b"123456789") == 0xCBF43926


@pytest.mark.parametrize(
    ("partitioner", "without_key", "empty_key"),
    [
        (Partitioner.MURMUR2, None, 275646681 % 7),
        (Partitioner.CRC32, 0, 0),
        (Partitioner.CONSISTENT_RANDOM, None, None),
        (Partitioner.FNV1A, None, 0x7EE3623B % 7),
    ],
)
def test_without_a_key_and_with_an_empty_one(
    partitioner: Partitioner, without_key: int | None, empty_key: int | None
) -> None:
    assert partition_of(partitioner, None, 7) == without_key
    assert partition_of(partitioner, b"", 7) == empty_key
    assert partition_of(partitioner, b"k", 7) == hash_of(partitioner, b"k") % 7
