"""Offsets by time: whose turn it is to answer, what passes and what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    find_offsets,
    list_offsets,
    try_list_offsets,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka, silent_leader, topic

TP = TopicPartition("t", 0)


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, RANGES | {2: (0, 6)}).start()
    fake.topics = [topic("t", 1)]
    yield fake
    await fake.stop()


@pytest.fixture
async def cluster(kafka: FakeKafka) -> AsyncIterator[Cluster]:
    async with Cluster(system_runtime(), kafka.address) as cluster:
        yield cluster


def offsets_answer(offset: int, error_code: int = 0) -> m.ListOffsetsResponse:
    response = m.ListOffsetsResponse
    partition = response.ListOffsetsPartitionResponse(
        partition_index=0, error_code=error_code, offset=offset
    )
    return response(topics=[response.ListOffsetsTopicResponse(name="t", partitions=[partition])])


async def test_offsets_are_asked_of_the_leader(cluster: Cluster, kafka: FakeKafka) -> None:
    codes = iter([6, 0, 0, 29])

    def answer(request: Any) -> m.ListOffsetsResponse:
        wanted = request.topics[0].partitions[0].timestamp
        return offsets_answer(3 if wanted == EARLIEST else 9, next(codes))

    kafka.on(m.ListOffsetsRequest, answer)
    assert await list_offsets(cluster, [TP], EARLIEST) == {TP: 3}
    assert await list_offsets(cluster, [TP], LATEST) == {TP: 9}
    with pytest.raises(KafkaError, match="Topic authorization failed"):
        await list_offsets(cluster, [TP], LATEST)


async def test_offsets_come_from_the_next_leader_where_one_says_nothing(
    cluster: Cluster, kafka: FakeKafka
) -> None:
    kafka.on(m.ListOffsetsRequest, lambda _: offsets_answer(9))
    cluster.request_timeout_ms = 50
    async with silent_leader(kafka, m.ListOffsetsRequest):
        assert await list_offsets(cluster, [TP], LATEST) == {TP: 9}


async def test_each_partition_has_its_own_time_and_its_own_answer(
    cluster: Cluster, kafka: FakeKafka
) -> None:
    asked: list[tuple[int, int]] = []

    def answer(request: Any) -> m.ListOffsetsResponse:
        asked.append((request.isolation_level, request.topics[0].partitions[0].timestamp))
        return offsets_answer(4)

    kafka.on(m.ListOffsetsRequest, answer)
    elsewhere, counted = TopicPartition("nowhere", 0), []
    found = await find_offsets(
        cluster,
        {elsewhere: LATEST, TP: 1234},
        read_committed=True,
        on_request=lambda: counted.append(1),
    )
    assert list(found) == [elsewhere, TP], "in the order of the question"
    assert found[TP] == 4
    assert isinstance(error := found[elsewhere], KafkaError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked == [(1, 1234)] and len(counted) == 1


async def test_the_caller_says_what_passes(cluster: Cluster, kafka: FakeKafka) -> None:
    codes = iter([ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_NOT_AVAILABLE, 0])
    kafka.on(m.ListOffsetsRequest, lambda _: offsets_answer(9, next(codes)))
    (error,) = (await find_offsets(cluster, {TP: LATEST})).values()
    assert isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_NOT_AVAILABLE
    patient = {ErrorCode.OFFSET_NOT_AVAILABLE}
    assert await find_offsets(cluster, {TP: LATEST}, passing=patient) == {TP: 9}


async def test_a_broker_that_is_too_old_or_leaves_it_out(
    cluster: Cluster, kafka: FakeKafka
) -> None:
    kafka.on(m.ListOffsetsRequest, lambda _: m.ListOffsetsResponse(topics=[]))
    (old,) = (await try_list_offsets(cluster, [TP], MAX_TIMESTAMP)).values()
    assert isinstance(old, KafkaError) and old.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="leaves it out"):
        await list_offsets(cluster, [TP], LATEST)
