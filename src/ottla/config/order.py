"""The order of DescribeConfigs' entries: that of the Scala map Kafka answers from.

Kafka's tools put the answer into a HashMap of Java, where what shares a bucket keeps the order of
its arrival: this order shows in what they print.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.java_hash import spread_hash

_SMALLEST_TABLE = 16


def scala_map_order(names: Iterable[str]) -> list[str]:
    """The names as scala.collection.mutable.HashMap (2.13) iterates over them: by bucket, and in
    a bucket by signed hash."""
    given = {name: spread_hash(name) for name in names}
    table = _SMALLEST_TABLE
    while len(given) * 4 > table * 3:
        table *= 2
    # Turning the top bit over makes unsigned comparison signed.
    return sorted(given, key=lambda name: (given[name] & (table - 1), given[name] ^ 0x80000000))
