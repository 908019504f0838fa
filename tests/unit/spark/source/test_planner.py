"""What happens between two questions to the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.spark.errors import DataLoss, OffsetError, SourceError, TopicMissing
from ottla.spark.source.offsets import TopicOffsets
from ottla.spark.source.planner import Planner
from tests.support.spark.fake_partition import (
    FIRST_ID,
    SECOND_ID,
    FakePartition,
    client_of,
    fake_partition,
    options_of,
)

LENIENT = {"failOnDataLoss": "false"}


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.spark.kafka._FRESH_TOPIC_MS", 50)


@pytest.fixture
def partition() -> Iterator[FakePartition]:
    with fake_partition(10) as made:
        yield made


def test_records_that_come_while_a_batch_is_planned(partition: FakePartition) -> None:
    """The time is looked up after the end: its record may be beyond it."""
    partition.offset_at_time = 12
    options = options_of(partition, startingTimestamp="5")
    with client_of(options) as client:
        assert Planner(client, options).batch() == []


def test_times_the_wrong_way_round_are_still_refused(partition: FakePartition) -> None:
    partition.offset_at_time = 7
    ends = {"startingTimestamp": "5", "endingOffsets": '{"t":{"0":3}}'}
    options = options_of(partition, **ends)
    with (
        client_of(options) as client,
        pytest.raises(SourceError, match="read backwards, from 7 to 3"),
    ):
        Planner(client, options).batch()


def test_no_record_is_that_young(partition: FakePartition) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        asked = {"startingTimestamp": "5", "kafka.isolation.level": isolation}
        options = options_of(partition, **asked)
        with (
            client_of(options) as client,
            pytest.raises(OffsetError, match="no record at or after"),
        ):
            Planner(client, options).batch()


def test_a_topic_that_is_deleted_while_its_ends_are_looked_up(partition: FakePartition) -> None:
    since = {"t": TopicOffsets(partition.topic_id, {0: 3})}
    partition.on_list_offsets = lambda: partition.set_topic(None)
    options = options_of(partition)
    with (
        client_of(options) as client,
        pytest.raises(DataLoss, match="topic t was deleted while it was being read"),
    ):
        Planner(client, options).observe_since(since)
    partition.set_topic(FIRST_ID)
    options = options_of(partition, **LENIENT)
    with client_of(options) as client:
        now, positions, _ = Planner(client, options).observe_since(since)
        assert (now.topics, positions) == ({}, {})
        with pytest.raises(TopicMissing, match="topic t does not exist"):
            Planner(client, options).observe()


def test_topics_that_never_stay_the_same_are_not_looked_at_for_ever(
    partition: FakePartition,
) -> None:
    ids = [FIRST_ID, SECOND_ID]
    partition.on_list_offsets = lambda: (partition.set_topic(ids[0]), ids.reverse())
    partition.set_topic(SECOND_ID)
    options = options_of(partition)
    with client_of(options) as client, pytest.raises(SourceError, match="faster than their ends"):
        Planner(client, options).observe()
