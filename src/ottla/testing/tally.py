"""Count and checksum of a topic's values: what went in must come out, whoever reads it.

The checksum is the sum of the values' CRC32, so readers of different partitions in different
order agree, and Spark computes the same with `sum(crc32(value))`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    count: int
    checksum: int

    def __add__(self, other: Tally) -> Tally:
        """Two readers' shares of one topic."""
        return Tally(self.count + other.count, self.checksum + other.checksum)


def tally(values: Iterable[bytes]) -> Tally:
    count = checksum = 0
    for value in values:
        count += 1
        checksum += zlib.crc32(value)
    return Tally(count, checksum)
