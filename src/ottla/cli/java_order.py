"""The order in which Java's HashMap hands out strings: Kafka's tools print configs in it."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.java_hash import spread_hash

_USUAL_TABLE = 16


def hash_map_order(names: Iterable[str], *, table: int = _USUAL_TABLE) -> list[str]:
    """`names` put into a new HashMap one by one, and read back; what shares a bucket keeps its
    order. A map that was made for as many names as it gets begins with a `table` of 1."""
    given = list(names)
    while len(given) * 4 > table * 3:  # it doubles when it is more than three quarters full
        table *= 2
    return sorted(given, key=lambda name: spread_hash(name) & (table - 1))
