"""Positions of a consumer group, carried from a topic to its copy. Pure.

A position is the offset of the next record to read. In the copy, records of several source
partitions lie in one partition, in an order of their own. The group goes on at the first record
that it may not have read: nothing is skipped, and what it has read behind that place is read again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.pipelines.copy.spans import Span

# By source partition and target partition; without pairs that share no record.
SpanMap = Mapping[tuple[int, int], Sequence[Span]]


class Carried(NamedTuple):
    """`again`: at most so many records are read a second time."""

    offsets: dict[int, int]
    again: int

    @property
    def is_exact(self) -> bool:
        return self.again == 0


class Translation:
    """Of one copy. What all groups need is gathered once: while a topic is resized, nothing can be
    written to it for as long as the groups take."""

    def __init__(self, spans: SpanMap, ends: Mapping[int, int]) -> None:
        """`ends` are those of the target's partitions."""
        self._ends = ends
        self._pairs: dict[int, list[tuple[int, Sequence[Span]]]] = {}
        # The first offset of each source partition.
        self._firsts: dict[int, int] = {}
        for (source, target), found in spans.items():
            if found:
                self._pairs.setdefault(target, []).append((source, found))
                first = found[0].first
                self._firsts[source] = min(first, self._firsts.get(source, first))

    def carry(self, committed: Mapping[int, int]) -> Carried:
        """`committed` are the group's positions by source partition; one without a position counts
        as not read."""
        offsets: dict[int, int] = {}
        again: dict[int, int] = {}
        for target, end in self._ends.items():
            pairs = self._pairs.get(target, ())
            bounds = [_first_unread(found, committed.get(s, 0)) for s, found in pairs]
            offset = min((bound for bound in bounds if bound is not None), default=end)
            offsets[target] = offset
            for source, found in pairs:
                behind = _read_behind(found, committed.get(source, 0), offset)
                again[source] = again.get(source, 0) + behind
        return Carried(offsets, sum(self._at_most(s, n, committed) for s, n in again.items()))

    def _at_most(self, source: int, again: int, committed: Mapping[int, int]) -> int:
        """All targets together hold no more read records of a source than it had offsets then."""
        return min(again, max(committed.get(source, 0) - self._firsts[source], 0))


def _first_unread(spans: Sequence[Span], position: int) -> int | None:
    """The target offset from which on unread records may lie; None where all are read."""
    place = bisect_right(spans, position, key=lambda span: span.first) - 1
    if place < 0:
        return spans[0].target_first
    span = spans[place]
    if position <= span.last:
        return span.target_first + (position - span.first if span.is_dense else 0)
    return spans[place + 1].target_first if place + 1 < len(spans) else None


def _read_behind(spans: Sequence[Span], position: int, offset: int) -> int:
    """At most so many records lie at or after `offset` in the target and were read."""
    again = 0
    for span in spans:
        if span.first >= position:
            break
        if span.target_last < offset:
            continue
        behind = span.target_last - max(span.target_first, offset) + 1
        if span.is_dense:
            # The first of them that are not before `offset`, up to the position.
            behind -= max(span.last - position + 1, 0)
        # Offsets grow by one at least from record to record.
        again += max(min(span.records, position - span.first, behind), 0)
    return again
