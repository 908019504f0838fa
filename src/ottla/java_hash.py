"""Java's String.hashCode: where groups live and in which order Kafka's maps are read."""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFF_FFFF


# The same groups and transactional ids are asked for again and again.
@lru_cache(maxsize=16_384)
def string_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units, wrapped to a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value


def spread_hash(text: str) -> int:
    """What hash maps of Java and Scala take a bucket from: the upper half mixed into the lower,
    as an unsigned number."""
    value = string_hash(text) & _MASK
    return value ^ (value >> 16)
