"""Which partition a key belongs to, as the clients have it: the hashes, and what each does with no
key and with an empty one. Pure.

- murmur2: Java's default (BuiltInPartitioner, DefaultPartitioner before 3.3), librdkafka's
  `murmur2_random`, kafka-python, franz-go. Without a key: any partition.
- crc32: librdkafka's `consistent`. Without a key as with an empty one: partition 0. (sarama's
  NewConsistentCRCHashPartitioner has the same hash, and takes any partition without a key.)
- consistent_random: librdkafka's default. As crc32, but any partition without a key or with an
  empty one.
- fnv1a: librdkafka's `fnv1a_random` and sarama's NewHashPartitioner. Without a key: any partition.

FNV-1a's 32 bits count as a signed number, whose sign is dropped (librdkafka: before the remainder
is taken, sarama: after it, which is the same). sarama's NewReferenceHashPartitioner drops the sign
bit instead, as Java does with murmur2: half of all keys lie elsewhere with it.
"""

from __future__ import annotations

import zlib
from enum import StrEnum

from ottla.wire import native

MURMUR2_SEED = 0x9747B28C
MURMUR2_MULTIPLIER = 0x5BD1E995
FNV1A_SEED = 0x811C9DC5
FNV1A_MULTIPLIER = 0x01000193
# A hash counts without its sign bit (Utils.toPositive).
POSITIVE = 0x7FFFFFFF
_MASK = 0xFFFFFFFF


class Partitioner(StrEnum):
    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    CONSISTENT_RANDOM = "consistent_random"
    FNV1A = "fnv1a"


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 as a signed number (Utils.murmur2)."""
    code = native.code
    value: int = _murmur2_in_python(data) if code is None else code.murmur2(data)
    return value - (1 << 32) if value >> 31 else value


def _murmur2_in_python(data: bytes) -> int:
    size = len(data)
    value = MURMUR2_SEED ^ size
    whole = size & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MURMUR2_MULTIPLIER & _MASK
        word = (word ^ word >> 24) * MURMUR2_MULTIPLIER & _MASK
        value = (value * MURMUR2_MULTIPLIER & _MASK) ^ word
    if size != whole:
        rest = int.from_bytes(data[whole:], "little")
        value = (value ^ rest) * MURMUR2_MULTIPLIER & _MASK
    value = (value ^ value >> 13) * MURMUR2_MULTIPLIER & _MASK
    return value ^ value >> 15


def fnv1a(data: bytes) -> int:
    """32-bit FNV-1a, unsigned."""
    value = FNV1A_SEED
    for byte in data:
        value = (value ^ byte) * FNV1A_MULTIPLIER & _MASK
    return value


def without_sign(value: int) -> int:
    """The absolute value of 32 bits that are a signed number (librdkafka's rd_fnv1a)."""
    return (1 << 32) - value if value >> 31 else value


def hash_of(partitioner: Partitioner, key: bytes) -> int:
    """The number whose remainder is the partition."""
    if partitioner is Partitioner.MURMUR2:
        return murmur2(key) & POSITIVE
    if partitioner is Partitioner.FNV1A:
        return without_sign(fnv1a(key))
    return zlib.crc32(key)


def partition_of(partitioner: Partitioner, key: bytes | None, partition_count: int) -> int | None:
    """None where the client takes any partition it likes."""
    if key is None and partitioner is not Partitioner.CRC32:
        return None
    if not key and partitioner is Partitioner.CONSISTENT_RANDOM:
        return None
    return hash_of(partitioner, key or b"") % partition_count


def sarama_reference_partition(key: bytes, partition_count: int) -> int:
    """sarama's NewReferenceHashPartitioner."""
    return (fnv1a(key) & POSITIVE) % partition_count
