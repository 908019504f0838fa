"""Which partition a record goes to: Kafka's DefaultPartitioner (2.4 to 3.2)."""

from __future__ import annotations

import random

from ottla.wire import native

MURMUR2_SEED = 0x9747B28C
MURMUR2_MULTIPLIER = 0x5BD1E995
# A hash counts without its sign (Utils.toPositive).
POSITIVE = 0x7FFFFFFF
_MASK = 0xFFFFFFFF


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


def partition_of_key(key: bytes, partition_count: int) -> int:
    """All partitions count, even those without a leader."""
    return (murmur2(key) & POSITIVE) % partition_count


class StickyChoice:
    """Records without a key stay on one partition until its batch is sent (KIP-480)."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._current: int | None = None

    def current(self, available: list[int]) -> int:
        if self._current not in available:
            self._current = self._rng.choice(available)
        return self._current

    def move_on(self, available: list[int]) -> None:
        """After a batch: another one, where there is another."""
        others = [partition for partition in available if partition != self._current]
        self._current = self._rng.choice(others) if others else self._current
