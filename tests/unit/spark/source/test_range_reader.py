"""A task that reads: rows taken slowly, leaders and connections that go, records that are lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from ottla.errors import ErrorCode
from ottla.spark.errors import DataLoss, SourceError, TopicRecreated
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.range_reader import ANSWERS_AHEAD, RangeReader
from tests.support.spark.fake_partition import (
    BY_NAME,
    SECOND_ID,
    FakePartition,
    client_of,
    fake_partition,
    options_of,
)

RECORDS = 12
SHORT = {"kafka.request.timeout.ms": "800"}
LENIENT = {"failOnDataLoss": "false"}
RESTART = {"onTopicRecreated": "restart"}


@pytest.fixture
def partition() -> Iterator[FakePartition]:
    with fake_partition(RECORDS) as made:
        yield made


def values(reader: RangeReader, pause_s: float = 0) -> list[int]:
    found = []
    for batch in reader.batches():
        found += [int(value) for value in batch["value"].to_pylist()]
        time.sleep(pause_s)
    return found


def whole(partition: FakePartition) -> OffsetRange:
    return OffsetRange("t", partition.topic_id, 0, 0, RECORDS)


def read(partition: FakePartition, pause_s: float = 0, **options: str) -> list[int]:
    parsed = options_of(partition, **options)
    with client_of(parsed) as client:
        return values(RangeReader(client, whole(partition), parsed), pause_s)


def test_it_reads_a_little_ahead(partition: FakePartition) -> None:
    options = options_of(partition)
    with client_of(options) as client:
        batches = RangeReader(client, whole(partition), options).batches()
        for taken in range(1, RECORDS - ANSWERS_AHEAD):
            next(batches)
            partition.wait_for_fetches(taken + ANSWERS_AHEAD)
            client.latest([], read_committed=False)  # a turn of the client's loop
            assert len(partition.fetched) == taken + ANSWERS_AHEAD
        batches.close()  # type: ignore[attr-defined]


def test_time_that_rows_are_worked_on_does_not_count(partition: FakePartition) -> None:
    """Each pause is longer than the time that a task waits for an answer."""
    options = options_of(partition, **{"kafka.request.timeout.ms": "500"})
    with client_of(options) as client:
        task = OffsetRange("t", partition.topic_id, 0, 0, 4)
        assert values(RangeReader(client, task, options), pause_s=0.6) == [0, 1, 2, 3]


def test_a_leader_that_is_away_while_rows_are_worked_on(partition: FakePartition) -> None:
    options = options_of(partition, **SHORT)
    with client_of(options) as client:
        batches = RangeReader(client, whole(partition), options).batches()
        next(batches)
        partition.wait_for_fetches(1 + ANSWERS_AHEAD)
        partition.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        found = [value for batch in batches for value in batch["value"].to_pylist()]
        assert len(found) == RECORDS - 1


def test_a_connection_that_the_broker_closed_is_made_again(partition: FakePartition) -> None:
    options = options_of(partition, **SHORT)
    with client_of(options) as client:
        batches = RangeReader(client, whole(partition), options).batches()
        next(batches)
        partition.wait_for_fetches(1 + ANSWERS_AHEAD)
        partition.drop_connections()  # connections.max.idle.ms
        assert sum(batch.num_rows for batch in batches) == RECORDS - 1


def test_who_cannot_be_read_is_unavailable_and_not_lost(partition: FakePartition) -> None:
    partition.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1_000
    for options in ({}, LENIENT):
        with pytest.raises(SourceError, match="nothing came for 800 ms: t-0 could not be") as told:
            read(partition, **SHORT, **options)
        assert not isinstance(told.value, DataLoss)


def test_a_log_that_was_cut_off(partition: FakePartition, caplog: pytest.LogCaptureFixture) -> None:
    partition.end = 7
    with pytest.raises(DataLoss, match=r"t-0 ends at offset 7, 7 to 12 were to be read.*false go"):
        read(partition, **SHORT)
    with caplog.at_level(logging.WARNING, logger="ottla.spark"):
        assert read(partition, **SHORT, **LENIENT) == list(range(7))
    assert "its log was cut off" in caplog.text


def test_records_that_aged_out(partition: FakePartition) -> None:
    partition.earliest = 9
    with pytest.raises(DataLoss, match="offset 0 of t-0 has aged out: the oldest is 9"):
        read(partition)
    assert read(partition, **LENIENT) == [9, 10, 11]
    partition.earliest = partition.end = 40
    assert read(partition, **LENIENT) == []


@pytest.mark.parametrize("options", [{}, RESTART])
def test_a_deleted_topic(
    partition: FakePartition, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.spark.kafka._FRESH_TOPIC_MS", 50)
    partition.set_topic(None)
    with pytest.raises(DataLoss, match="topic t was deleted while it was being read"):
        read(partition, **options)
    assert read(partition, **options, **LENIENT) == []


@pytest.mark.parametrize("options", [{}, LENIENT])
def test_a_topic_made_again(partition: FakePartition, options: dict[str, str]) -> None:
    partition.set_topic(SECOND_ID)
    with pytest.raises(TopicRecreated, match=r"made again while it was being read.*=restart"):
        read(partition, **options)
    assert read(partition, **options, **RESTART) == []


@pytest.mark.parametrize("options", [{}, RESTART])
def test_records_of_another_topic_under_the_same_name(options: dict[str, str]) -> None:
    """Brokers before 3.1 cannot be asked by id: what they sent may be the new topic's."""
    with fake_partition(RECORDS, BY_NAME) as partition:
        assert read(partition, **options) == list(range(RECORDS))
        partition.set_topic(SECOND_ID)
        with pytest.raises(TopicRecreated, match="may have been read instead"):
            read(partition, **options)


def test_an_answer_without_the_partition(partition: FakePartition) -> None:
    from ottla.wire import messages as m

    partition.kafka.on(m.FetchRequest, lambda _: m.FetchResponse(responses=[]))
    with pytest.raises(SourceError, match="t-0 cannot be read: broker 1 answered without"):
        read(partition)
