"""The newest offset of each key in the dirty part of a log (SkimpyOffsetMap).

Kafka keeps an MD5 and the offset in 24 bytes of a preallocated buffer. Here a dict holds short keys
as they are and a digest of long ones; it takes memory only for the keys that it really holds.
"""

from __future__ import annotations

from hashlib import blake2b

# What an entry takes in a dict: the slot, a bytes object of up to 17 bytes and an int.
ENTRY_BYTES = 192
_SHORT_KEY_BYTES = 16
# Longer than any short key, so that no key can be mistaken for another one's digest.
_DIGEST_BYTES = 17


def capacity_for(buffer_bytes: int, load_factor: float) -> int:
    """Keys for log.cleaner.dedupe.buffer.size; fewer than in Kafka, in the same memory."""
    return int(buffer_bytes * load_factor) // ENTRY_BYTES


class OffsetMap:
    """At most `capacity` keys. `end_offset` is the first offset that is not covered."""

    __slots__ = ("_capacity", "_offsets", "end_offset")

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._offsets: dict[bytes, int] = {}
        self.end_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Offsets come in order; False where the map is full (the key is then not covered)."""
        if len(key) > _SHORT_KEY_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        if len(self._offsets) >= self._capacity and key not in self._offsets:
            return False
        self._offsets[key] = offset
        self.end_offset = offset + 1
        return True

    def covered_to(self, end_offset: int) -> None:
        """Everything below was looked at."""
        self.end_offset = max(self.end_offset, end_offset)

    def newest(self, key: bytes) -> int:
        """The key's newest offset in the dirty part; -1 if it is not there."""
        if len(key) > _SHORT_KEY_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return self._offsets.get(key, -1)
