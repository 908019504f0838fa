"""The topic config `ottla.key.guard`: until a moment, leaders refuse records whose key does not
belong to their partition (ADR 53). `murmur2@1794884113336`: the partitioner, and until when. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ottla.topics.partitioners import Partitioner, partition_of

KEY_GUARD = "ottla.key.guard"


class KeyGuard(NamedTuple):
    partitioner: Partitioner
    until_ms: int

    def allows(self, key: bytes | None, partition: int, partition_count: int) -> bool:
        """Whether a record with this key may be in a partition. Without a key there is no order
        to keep."""
        if key is None or not partition_count:
            return True
        home = partition_of(self.partitioner, key, partition_count)
        return home is None or home == partition

    def encode(self) -> str:
        return f"{self.partitioner}@{self.until_ms}"


@lru_cache(maxsize=256)
def parse(text: str) -> KeyGuard | None:
    """None for no guard. What the config's own check lets through can be read."""
    partitioner, _, until = text.partition("@")
    return KeyGuard(Partitioner(partitioner), int(until)) if until else None
