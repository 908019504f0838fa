"""Which partition of an internal topic a group or transactional id belongs to."""

from __future__ import annotations

from ottla.java_hash import string_hash


def partition_of(key: str, partition_count: int) -> int:
    """Kafka's Utils.abs(hash) mod count; the smallest integer, which has no abs, counts as 0."""
    value = string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
