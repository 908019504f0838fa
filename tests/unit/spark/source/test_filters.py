"""Which filters narrow what is fetched, and which Spark still has to apply."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource as d

from ottla.spark.source.filters import narrowed, sort_out
from ottla.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
STARTS = {T0: 10, T1: 0, U0: 5}
ENDS = {T0: 100, T1: 50, U0: 5}
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


def ranges(*filters, since=None):
    pruning, left = sort_out(filters)
    starts, ends = narrowed(pruning, STARTS, ENDS, since or {})
    return {p: (starts[p], ends[p]) for p in ends}, left


def test_without_filters_all_that_is_there_is_read():
    assert ranges() == ({T0: (10, 100), T1: (0, 50)}, [])


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (d.EqualTo(("partition",), 1), {T1}),
        (d.EqualNullSafe(("partition",), 1), {T1}),
        (d.In(("partition",), (1, 7)), {T1}),
        (d.GreaterThan(("partition",), 0), {T1}),
        (d.GreaterThanOrEqual(("partition",), 1), {T1}),
        (d.LessThan(("partition",), 1), {T0}),
        (d.LessThanOrEqual(("partition",), 0), {T0}),
        (d.Not(d.EqualTo(("partition",), 1)), {T0}),
        (d.Not(d.In(("partition",), (0,))), {T1}),
        (d.EqualTo(("topic",), "u"), set()),
        (d.StringStartsWith(("topic",), "t"), {T0, T1}),
        (d.StringEndsWith(("topic",), "x"), set()),
        (d.StringContains(("topic",), "t"), {T0, T1}),
        (d.IsNotNull(("partition",)), {T0, T1}),
    ],
)
def test_topic_and_partition_are_decided_here(one, left):
    found, for_spark = ranges(one)
    assert set(found) == left
    assert for_spark == []


@pytest.mark.parametrize(
    ("one", "bounds"),
    [
        (d.EqualTo(("offset",), 20), {T0: (20, 21), T1: (20, 21)}),
        (d.GreaterThan(("offset",), 49), {T0: (50, 100)}),
        (d.GreaterThanOrEqual(("offset",), 49), {T0: (49, 100), T1: (49, 50)}),
        (d.LessThan(("offset",), 11), {T0: (10, 11), T1: (0, 11)}),
        (d.LessThanOrEqual(("offset",), 10), {T0: (10, 11), T1: (0, 11)}),
        (d.LessThan(("offset",), -3), {}),
        (d.GreaterThan(("offset",), 2**63 - 1), {}),
    ],
)
def test_offsets_are_decided_here(one, bounds):
    assert ranges(one) == (bounds, [])


def test_single_offsets_only_narrow():
    one = d.In(("offset",), (20, 30))
    assert ranges(one) == ({T0: (20, 31), T1: (20, 31)}, [one])


def test_a_lower_bound_in_time_moves_the_start_and_stays_with_spark():
    one = d.GreaterThanOrEqual(("timestamp",), MOMENT)
    pruning, left = sort_out([one])
    assert pruning.since_ms == 1_704_067_200_000
    assert left == [one]
    assert ranges(one, since={T0: 40, T1: -1}) == ({T0: (40, 100)}, [one])


@pytest.mark.parametrize(
    "one",
    [
        d.LessThan(("timestamp",), MOMENT),
        d.GreaterThan(("timestamp",), MOMENT.replace(tzinfo=None)),
        d.Not(d.GreaterThan(("timestamp",), MOMENT)),
        d.Not(d.EqualTo(("offset",), 20)),
        d.In(("partition",), (1, None)),
        d.Not(d.In(("partition",), (1, None))),
        d.EqualTo(("partition",), None),
        d.EqualTo(("value", "offset"), 1),
        d.EqualTo(("value",), b"x"),
        d.IsNotNull(("key",)),
        d.IsNull(("partition",)),
        d.Not(d.IsNull(("partition",))),
    ],
)
def test_what_is_left_to_spark_narrows_nothing(one):
    pruning, left = sort_out([one])
    assert left == [one]
    assert pruning.since_ms is None
    assert ranges(one)[0] == ranges()[0]


def test_times_before_1970_are_the_beginning():
    pruning, _ = sort_out([d.GreaterThan(("timestamp",), datetime(1900, 1, 1, tzinfo=UTC))])
    assert pruning.since_ms == 0
