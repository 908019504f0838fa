"""Where the records of one source partition are in one target partition: sparse, bounded. Pure.

A span is a run of records: from which source offsets they come, where in the target it begins. The
records of a pair of partitions keep their order, so spans go up in both. Where there are too many,
neighbours become one; the newest are joined last, because groups are mostly near the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Offsets of the first and last record, in the source and in the target."""

    first: int
    last: int
    target_first: int
    target_last: int
    records: int

    def joined(self, later: Span) -> Span:
        return Span(
            self.first,
            later.last,
            self.target_first,
            later.target_last,
            self.records + later.records,
        )

    @property
    def is_dense(self) -> bool:
        """Neither side has anything in between: each record's place is known."""
        return (
            self.last - self.first + 1 == self.target_last - self.target_first + 1 == self.records
        )


def thinned(spans: Sequence[Span], most: int) -> list[Span]:
    """At most so many, the older half of them joined in pairs until they fit."""
    kept = list(spans)
    while len(kept) > max(most, 1):
        if len(kept) <= 3:
            kept[:2] = [kept[0].joined(kept[1])]
            continue
        half = len(kept) // 2 & ~1
        older = [kept[i].joined(kept[i + 1]) for i in range(0, half, 2)]
        kept = older + kept[half:]
    return kept
