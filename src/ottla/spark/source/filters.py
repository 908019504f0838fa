"""Filters of a query that narrow what is fetched. Pure.

Topic and partition are the same in all records of a task, and offsets bound it: such a filter is
kept here and Spark need not look again. A lower bound on the timestamp moves the start to the first
record that is young enough (ListOffsets); later ones may be older, so Spark keeps that filter.
Nothing follows from an upper bound: after a record that is too young others may come that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.types import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Columns of which a record has none without a value.
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_CONSTANT = {"topic": str, "partition": int}
_MAX_OFFSET = 2**63 - 1


@dataclass(slots=True)
class Pruning:
    """What has to be read: the partitions that pass all `constants`, offsets in [first, end), and
    nothing before the first record of `since_ms`."""

    constants: list[Any] = field(default_factory=list)
    first_offset: int = 0
    end_offset: int = _MAX_OFFSET
    since_ms: int | None = None

    def covers(self, partition: TopicPartition) -> bool:
        values = {"topic": partition.topic, "partition": partition.partition}
        return all(_passes(one, values) for one in self.constants)

    def add(self, one: Any) -> bool:
        """Whether Spark need not look at this filter again. A filter is what PySpark's classes of
        the same names are: an attribute (a path of names), and mostly a value."""
        kind = type(one).__name__
        inner = one.child if kind == "Not" else one
        if len(inner.attribute) != 1:
            return False
        column = inner.attribute[0]
        if kind == "IsNotNull":
            return column in _NEVER_NULL
        if column in _CONSTANT and _is_decided(inner, _CONSTANT[column]):
            self.constants.append(one)
            return True
        if column == "offset" and kind != "Not" and _is_decided(inner, int):
            return self._bound_offsets(kind, inner.value)
        if column == "timestamp" and kind != "Not":
            self._bound_timestamps(kind, inner)
        return False

    def _bound_offsets(self, kind: str, value: Any) -> bool:
        lowest, highest = (min(value), max(value)) if kind == "In" else (value, value)
        if kind.startswith("Greater") or kind in ("EqualTo", "In"):
            self.first_offset = max(self.first_offset, lowest + (kind == "GreaterThan"))
        if kind.startswith("Less") or kind in ("EqualTo", "In"):
            self.end_offset = min(self.end_offset, highest + (kind != "LessThan"))
        return kind not in ("In", "EqualNullSafe")

    def _bound_timestamps(self, kind: str, one: Any) -> None:
        if kind not in ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "In"):
            return
        values = one.value if kind == "In" else (one.value,)
        # Only moments are certain: one without a zone is left to Spark.
        if values and all(isinstance(v, datetime) and v.tzinfo is not None for v in values):
            since_ms = max((min(values) - _EPOCH) // timedelta(milliseconds=1), 0)
            self.since_ms = max(self.since_ms or 0, since_ms)


def _is_decided(one: Any, kind: type) -> bool:
    """Whether the filter can be kept here: a known kind, about values of the column's type."""
    name = type(one).__name__
    if name == "In":
        return bool(one.value) and all(type(value) is kind for value in one.value)
    if name in ("StringStartsWith", "StringEndsWith", "StringContains"):
        return kind is str and type(one.value) is str
    return name in _COMPARISONS and type(one.value) is kind


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda left, right: left == right,
    "EqualNullSafe": lambda left, right: left == right,
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqual": lambda left, right: left >= right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqual": lambda left, right: left <= right,
    "In": lambda left, right: left in right,
    "StringStartsWith": lambda left, right: left.startswith(right),
    "StringEndsWith": lambda left, right: left.endswith(right),
    "StringContains": lambda left, right: right in left,
}


def _passes(one: Any, values: Mapping[str, Any]) -> bool:
    if type(one).__name__ == "Not":
        return not _passes(one.child, values)
    return _COMPARISONS[type(one).__name__](values[one.attribute[0]], one.value)


def sort_out(filters: Sequence[Any]) -> tuple[Pruning, list[Any]]:
    """What to read, and the filters that Spark has to apply to it."""
    pruning = Pruning()
    return pruning, [one for one in filters if not pruning.add(one)]


def narrowed(
    pruning: Pruning,
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    since: Mapping[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Starts and ends of the partitions that are left. `since` has the first offset of the time
    that is asked for, -1 where no record is that young."""
    starts, ends = {}, {}
    for partition, last in end.items():
        if not pruning.covers(partition):
            continue
        first = max(start[partition], pruning.first_offset)
        young = since.get(partition, 0)
        first = last if young < 0 else max(first, young)
        stop = min(last, pruning.end_offset)
        if first < stop:
            starts[partition], ends[partition] = first, stop
    return starts, ends
