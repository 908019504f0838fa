"""What a broker counts, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers import ROUTES_BY_KEY
from ottla.broker.metrics.counts import (
    BUCKETS_MS,
    IsrCounter,
    RequestMetrics,
    Served,
    error_codes,
    record_count,
)
from ottla.broker.replication.alter_isr import IsrAnswer, IsrChange
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

TP = TopicPartition("t", 0)
BATCH = build_batch([Record(None, b"v", 1), Record(None, b"w", 1)])
FAILED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def served(api_key: int, request: Any, version: int = 3) -> Served:
    return Served(api_key, ROUTES_BY_KEY[api_key].name, version, request)


def produced(topic: str, code: int = 0) -> tuple[Served, m.ProduceResponse]:
    request, response = m.ProduceRequest, m.ProduceResponse
    data = request.PartitionProduceData(index=0, records=memoryview(BATCH * 2))
    result = response.PartitionProduceResponse(index=0, error_code=code)
    return (
        served(
            0, request(topic_data=[request.TopicProduceData(name=topic, partition_data=[data])])
        ),
        response(
            responses=[response.TopicProduceResponse(name=topic, partition_responses=[result])]
        ),
    )


def fetched(replica_id: int, code: int = 0) -> tuple[Served, m.FetchResponse]:
    response = m.FetchResponse
    records = memoryview(b"" if code else b"x" * 10)
    data = response.PartitionData(partition_index=0, error_code=code, records=records)
    return (
        served(1, m.FetchRequest(replica_id=replica_id)),
        response(responses=[response.FetchableTopicResponse(topic="t", partitions=[data])]),
    )


def test_records_and_bytes_in() -> None:
    metrics = RequestMetrics()
    metrics.answered(*produced("t"), 3.0)
    metrics.answered(*produced("t", FAILED), 3.0)
    metrics.answered(*produced("absent", FAILED), 3.0)
    topic = metrics.topics["t"]
    assert (topic.messages_in, topic.bytes_in, topic.failed_produces) == (4, 2 * len(BATCH), 1)
    assert (metrics.total.messages_in, metrics.total.failed_produces) == (4, 2)
    assert (topic.produces, metrics.total.produces) == (2, 3)
    assert list(metrics.topics) == ["t"], "topics that may not exist are not remembered"
    assert metrics.apis["Produce"].errors == {0: 1, FAILED: 2}
    metrics.forget(lambda name: False)
    assert metrics.topics == {}


def test_followers_apart_from_consumers() -> None:
    metrics = RequestMetrics()
    metrics.answered(*fetched(-1), 3.0)
    metrics.answered(*fetched(2), 3.0)
    metrics.answered(*fetched(-1, FAILED), 3.0)
    topic = metrics.topics["t"]
    assert (topic.bytes_out, topic.replication_bytes_out, topic.failed_fetches) == (10, 10, 1)
    assert topic.fetches == 3
    assert sum(metrics.apis["FetchConsumer"].by_version.values()) == 2
    assert sum(metrics.apis["FetchFollower"].by_version.values()) == 1


def test_times_fall_into_buckets() -> None:
    metrics = RequestMetrics()
    for elapsed_ms in (0.5, 1.0, 1.5, 40_000.0):
        metrics.answered(served(3, m.MetadataRequest()), m.MetadataResponse(), elapsed_ms)
    metrics.failed(served(3, m.MetadataRequest(), 5), FAILED, 0.0)
    api = metrics.apis["Metadata"]
    assert api.buckets[:2] == [3, 1] and api.buckets[len(BUCKETS_MS)] == 1
    assert api.total_ms == pytest.approx(40_003.0)
    assert api.by_version == {3: 4, 5: 1} and api.errors == {FAILED: 1}


def test_codes_of_answers() -> None:
    assert list(error_codes(m.HeartbeatResponse(error_code=25))) == [25]
    topic = m.CreateTopicsResponse.CreatableTopicResult
    answer = m.CreateTopicsResponse(topics=[topic(error_code=36), topic()])
    assert list(error_codes(answer)) == [36, 0]


def test_records_are_counted_by_headers_and_no_further() -> None:
    assert record_count(memoryview(BATCH * 3)) == 6
    assert record_count(memoryview(BATCH * 3)[:-1]) == 6, "a cut batch still has its header"
    assert record_count(memoryview(b"")) == record_count(memoryview(b"\xff" * 60)) == 0


def test_isr_changes_are_counted_by_what_came_of_them() -> None:
    isr: list[tuple[int, ...]] = [(1, 2)]
    passed: list[IsrChange] = []

    class Submitter:
        def submit(self, change: IsrChange) -> bool:
            passed.append(change)
            return True

        def clear(self, tp: TopicPartition) -> None:
            passed.clear()

    counter = IsrCounter(Submitter(), lambda _: len(isr[0]))
    for wanted in ((1,), (1, 2), (1, 2)):
        counter.submit(IsrChange(TP, 0, wanted, 0, lambda answer: isr.__setitem__(0, answer.isr)))
        passed[-1].answered(IsrAnswer(ErrorCode.NONE, isr=wanted))
    assert (counter.shrinks, counter.expands) == (1, 1)
    counter.clear(TP)
    assert passed == []
