"""DeleteRecords: every leader is asked about its partitions, and the next one where it moved."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka, topic

T0, T1, ABSENT = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)


def answered(request: Any, error_code: int = 0) -> m.DeleteRecordsResponse:
    response = m.DeleteRecordsResponse
    return response(
        topics=[
            response.DeleteRecordsTopicResult(
                name=each.name,
                partitions=[
                    response.DeleteRecordsPartitionResult(
                        partition_index=part.partition_index,
                        low_watermark=part.offset,
                        error_code=error_code,
                    )
                    for part in each.partitions
                ],
            )
            for each in request.topics
        ]
    )


async def test_leaders_are_followed() -> None:
    ranges = RANGES | {21: (0, 2)}
    first, second = await FakeKafka(1, ranges).start(), await FakeKafka(2, ranges).start()
    first.peers = second.peers = [first, second]
    first.topics = second.topics = [topic("t", 1, 2)]

    def moved(request: Any) -> m.DeleteRecordsResponse:
        first.topics = second.topics = [topic("t", 1, 1)]
        return answered(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    first.on(m.DeleteRecordsRequest, answered)
    second.on(m.DeleteRecordsRequest, moved)
    try:
        async with Admin.connect(system_runtime(), first.address, timeout_ms=5000) as admin:
            found = await admin.delete_records({T0: 5, T1: 7, ABSENT: 1})
    finally:
        await first.stop()
        await second.stop()
    assert (found[T0], found[T1]) == (5, 7)
    missing = found[ABSENT]
    assert isinstance(missing, KafkaError)
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
