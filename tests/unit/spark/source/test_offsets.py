"""Offsets with topic ids: their text, what tells a loss, shares and plans."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.errors import OffsetError
from ottla.spark.kafka import TopicNow
from ottla.spark.options import EARLIEST, LATEST, Bound
from ottla.spark.source import offsets as o
from ottla.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def now(topic_id, *partitions):
    return TopicNow(topic_id, frozenset(partitions))


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.builds(
            o.TopicOffsets,
            st.text(max_size=22),
            st.dictionaries(st.integers(0, 99), st.integers(0, 1 << 60), min_size=1),
        ),
    )
)
def test_offsets_survive_their_text_and_have_one_text(offsets):
    text = json.dumps(o.to_json(offsets))
    assert o.from_json(json.loads(text)) == offsets
    assert json.dumps(o.to_json(o.from_json(json.loads(text)))) == text


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"0": 5}},  # the official connector's
        {"a": {"id": 3, "partitions": {"0": 1}}},
        {"a": {"id": "x", "partitions": {"zero": 1}}},
        {"a": {"id": "x", "partitions": {"0": -1}}},
        {"a": {"id": "x", "partitions": [1]}},
        [],
        "latest",
        {"a": None},
    ],
)
def test_offsets_of_another_source_are_refused(value):
    with pytest.raises(OffsetError, match="new checkpointLocation"):
        o.from_json(value)


def test_bounds():
    assert o.asked_for(Bound(word=LATEST), [A0, B0], "x") == {A0: LATEST, B0: LATEST}
    given_offsets = Bound(given={"a": {0: 5, 1: EARLIEST}})
    asked = o.asked_for(given_offsets, [A0, A1], "x")
    assert o.resolve(asked, {A0: 1, A1: 2}, {A0: 9, A1: 9}) == {A0: 5, A1: 2}
    with pytest.raises(OffsetError, match="without b-0"):
        o.asked_for(given_offsets, [A0, A1, B0], "startingOffsets")
    with pytest.raises(OffsetError, match="with a-1, which is not subscribed"):
        o.asked_for(given_offsets, [A0], "startingOffsets")


def test_offsets_that_the_partitions_do_not_have():
    losses = o.check_asked("startingOffsets", {A0: 4, A1: 10, B0: 7}, {A0: 5, A1: 0, B0: 0}, {
        A0: 9, A1: 9, B0: 7,
    })  # fmt: skip
    assert [loss.why for loss in losses] == [
        "startingOffsets asks for offset 4 of a-0, which is aged out: the partition has 5 to 9",
        "startingOffsets asks for offset 10 of a-1, which is not written yet: "
        "the partition has 0 to 9",
    ]


START = {"a": o.TopicOffsets("one", {0: 5, 1: 7})}


@pytest.mark.parametrize(
    ("topics", "latest", "words", "recreated"),
    [
        ({"a": now("one", 0, 1)}, {A0: 5, A1: 9}, [], []),
        ({"a": now("", 0, 1)}, {A0: 5, A1: 9}, [], []),
        ({}, {}, ["was deleted while"], [False]),
        ({"a": now("two", 0, 1)}, {A0: 99, A1: 99}, ["deleted and made again"], [True]),
        ({"a": now("one", 0)}, {A0: 5}, ["has 1 partitions now, without 1"], [True]),
        ({"a": now("one", 0, 1)}, {A0: 4, A1: 9}, ["a-0 ends at offset 4, but 5"], [False]),
        ({"a": now("", 0, 1)}, {A0: 4, A1: 9}, ["a-0 ends at offset 4, but 5"], [True]),
    ],
)
def test_what_tells_a_loss(topics, latest, words, recreated):
    losses = o.losses_since(START, topics, latest)
    assert [loss.recreated for loss in losses] == recreated
    for loss, word in zip(losses, words, strict=True):
        assert word in loss.why


def test_where_partitions_go_on():
    latest = {A0: 9, A1: 6, TopicPartition("a", 2): 3, B0: 4}
    earliest = dict.fromkeys(latest, 1)
    topics = {"a": now("one", 0, 1, 2), "b": now("id", 0)}
    assert list(o.continued(START, topics, earliest, latest).values()) == [5, 6, 1, 1]
    topics["a"] = now("two", 0, 1, 2)
    assert list(o.continued(START, topics, earliest, latest).values()) == [1, 1, 1, 1]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1, max_size=6),
    st.integers(1, 2000),
)
def test_a_limit_is_shared_and_always_makes_progress(ranges, rows):
    start = {TopicPartition("t", i): begin for i, (begin, _) in enumerate(ranges)}
    latest = {TopicPartition("t", i): begin + n for i, (begin, n) in enumerate(ranges)}
    ends = o.limit(start, latest, rows)
    taken = {p: ends[p] - start[p] for p in start}
    assert all(0 <= taken[p] <= latest[p] - start[p] for p in start)
    assert sum(taken.values()) <= rows + len(ranges)
    for p in start:
        assert taken[p] > 0 or latest[p] == start[p]


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_plans_cover_every_offset_once(sizes, min_partitions, max_records):
    ranges = [o.OffsetRange("t", "", i, 3, 3 + size) for i, size in enumerate(sizes)]
    planned = o.plan(ranges, min_partitions=min_partitions, max_records=max_records)
    assert planned == o.plan(ranges[::-1], min_partitions=min_partitions, max_records=max_records)
    covered = [
        (r.partition, offset) for r in planned for offset in range(r.start, r.end)
    ]  # fmt: skip
    assert covered == [(i, 3 + n) for i, size in enumerate(sizes) for n in range(size)]
    assert all(r.start < r.end for r in planned)
    if max_records:
        assert all(r.end - r.start <= max_records for r in planned)
    if not min_partitions and not max_records:
        assert len(planned) == sum(size > 0 for size in sizes)


@given(
    st.lists(st.integers(1, 500), max_size=8),
    st.one_of(st.none(), st.integers(1, 1000)),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_small_ranges_share_a_task_and_nothing_is_left_out(sizes, min_records, min_partitions):
    ranges = [o.OffsetRange("t", "", i, 3, 3 + size) for i, size in enumerate(sizes)]
    tasks = o.gather(ranges, min_records=min_records, min_partitions=min_partitions)
    assert [one for task in tasks for one in task] == ranges
    assert all(tasks)
    if min_records is None:
        assert len(tasks) == len(ranges)
    elif min_partitions is not None:
        assert len(tasks) >= min(min_partitions, len(ranges))
    else:
        rows = [sum(one.end - one.start for one in task) for task in tasks]
        assert all(count >= min_records for count in rows[:-1])
        # No range joined a task that had enough without it.
        assert all(sum(r.end - r.start for r in task[:-1]) < min_records for task in tasks)


def test_as_many_tasks_as_are_asked_for_stay():
    ranges = [o.OffsetRange("t", "", i, 0, 10) for i in range(8)]
    assert len(o.gather(ranges, min_records=1000, min_partitions=None)) == 1
    assert len(o.gather(ranges, min_records=1000, min_partitions=4)) == 4
    assert len(o.gather(ranges, min_records=25, min_partitions=None)) == 3
