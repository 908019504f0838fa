"""Produce, ListOffsets, OffsetForLeaderEpoch and DeleteRecords through their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.fetching.params import FetchParams
from ottla.broker.handlers import (
    delete_records,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from ottla.broker.replication.fetch_protocol import FetchPartition
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import message_sets, records
from ottla.wire import messages as m
from tests.support.broker.produce_requests import produce_request
from tests.support.broker.replica_cluster import TP, Broker, client_batch, until

FIRST_MS = 1_700_000_000_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(0, tmp_path)
    await broker.start()
    broker.know([0])
    broker.order(0, 1, replicas=[0])
    yield broker
    await broker.stop()


async def send(
    broker: Broker, data: memoryview | bytes | None, *, version: int = 9, **kwargs: Any
) -> Any:
    request = produce_request(data, version=version, **kwargs)
    response = await produce.handle(broker.context(version), request)
    assert response is not None
    decoded, _ = m.ProduceResponse.decode(response.encode(version), version)
    return decoded.responses[0].partition_responses[0]


def _with_magic(magic: int) -> bytes:
    data = bytearray(client_batch())
    data[16] = magic
    return bytes(data)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
async def test_produce(broker: Broker, version: int) -> None:
    answer = await send(broker, client_batch(4), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    answer = await send(broker, client_batch(1), version=version, acks=-1)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 4, -1)
    assert broker.log.end_offset == 5


@pytest.mark.parametrize(
    ("data", "version", "code"),
    [
        (None, 2, ErrorCode.UNKNOWN_SERVER_ERROR),
        (_with_magic(1), 2, ErrorCode.CORRUPT_MESSAGE),
        (None, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (bytes(client_batch()) * 2, 9, ErrorCode.INVALID_RECORD),
        (_with_magic(1), 9, ErrorCode.INVALID_RECORD),
        # A length or a magic byte that no batch has: also behind the first one.
        (_with_magic(3), 9, ErrorCode.CORRUPT_MESSAGE),
        (bytes(12), 9, ErrorCode.CORRUPT_MESSAGE),
        (bytes(client_batch()) + bytes(12), 9, ErrorCode.CORRUPT_MESSAGE),
        (bytes(client_batch()) + _with_magic(255), 9, ErrorCode.CORRUPT_MESSAGE),
        (bytes(client_batch())[:-1], 9, ErrorCode.INVALID_RECORD),
        (
            records.build_batch([records.Record(b"k", b"v", 1)], compression=4),
            6,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        (
            records.build_batch(
                [records.Record(b"k", b"v", 1)],
                transactional=True,
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
            ),
            9,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
async def test_what_produce_refuses(
    broker: Broker, data: memoryview | bytes | None, version: int, code: ErrorCode
) -> None:
    answer = await send(broker, data, version=version)
    assert answer.error_code == code and answer.base_offset == -1
    assert broker.log.end_offset == 0


def _message_set(magic: int, count: int = 3, compression: int = 0) -> bytes:
    items = [records.Record(b"k", b"%d" % n, FIRST_MS + n, offset=n) for n in range(count)]
    return message_sets.build_message_set(items, magic=magic, compression=compression)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_old_versions_bring_message_sets(broker: Broker, version: int) -> None:
    answer = await send(broker, _message_set(0), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    answer = await send(broker, _message_set(1, compression=1), version=version, acks=-1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 3)
    # Clients are known that send the wrong format for the version.
    answer = await send(broker, client_batch(4), version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 6)
    assert broker.log.end_offset == 10


@pytest.mark.parametrize("data", [b"", _message_set(1)[:30]])
async def test_old_versions_may_bring_nothing(broker: Broker, data: bytes) -> None:
    answer = await send(broker, data, version=2, acks=-1)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, -1)
    assert broker.log.end_offset == 0


async def test_old_versions_and_transactions(broker: Broker) -> None:
    data = records.build_batch(
        [records.Record(b"k", b"v", 1)],
        transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    answer = await send(broker, data, version=2)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # The same bit of a message belongs to its timestamp.
    items = [records.Record(None, b"v", (1 << 63) - 1, offset=0)]
    answer = await send(broker, message_sets.build_message_set(items, magic=1), version=2)
    assert answer.error_code == ErrorCode.NONE


async def test_a_refused_message_set_is_not_taken_for_a_producers_batch(broker: Broker) -> None:
    """Where a batch has its producer id and sequence, a message has anything."""
    data = _message_set(1)
    for topic in ("x", "t"):
        await send(broker, data, version=2, topic=topic)
    assert len(broker.manager.appends.refusals) == 0


async def test_part_of_a_second_batch_is_cut_off(broker: Broker) -> None:
    answer = await send(broker, bytes(client_batch()) + bytes(client_batch())[:40])
    assert (answer.error_code, broker.log.end_offset) == (ErrorCode.NONE, 1)


async def test_refusals_tell_the_log_start_but_not_of_what_is_no_batch(broker: Broker) -> None:
    await broker.produce(3)
    broker.log.advance_start_offset(2)
    for epoch, code in ((1, ErrorCode.NONE), (0, ErrorCode.INVALID_PRODUCER_EPOCH)):
        data = records.build_batch(
            [records.Record(b"k", b"v", 1)], producer_id=1, producer_epoch=epoch, base_sequence=0
        )
        answer = await send(broker, data)
        assert (answer.error_code, answer.log_start_offset) == (code, 2)
    wrong_crc = bytearray(client_batch())
    wrong_crc[17] ^= 1
    answer = await send(broker, bytes(wrong_crc))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


async def test_an_unknown_topic_comes_before_everything_else(broker: Broker) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await send(broker, client_batch(), topic="x", acks=2)).error_code == unknown
    assert (await send(broker, b"", topic="x")).error_code == unknown
    internal = "__consumer_offsets"
    assert (await send(broker, client_batch(), topic=internal)).error_code == unknown
    broker.know([0], topics=["t", internal])
    answer = await send(broker, client_batch(), topic=internal)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await send(broker, client_batch(), acks=2)).error_code == 21


async def test_a_partition_that_a_produce_names_twice(broker: Broker) -> None:
    async def answers(*batches: memoryview | bytes) -> list[tuple[int, int]]:
        request = produce_request(batches[0])
        topic = request.topic_data[0]
        for data in batches[1:]:
            view = memoryview(bytearray(data))
            more = m.ProduceRequest.PartitionProduceData(index=0, records=view)
            topic.partition_data.append(more)
        empty = m.ProduceRequest.TopicProduceData(name="none", partition_data=[])
        request.topic_data.append(empty)
        response = await produce.handle(broker.context(9), request)
        assert response is not None and [topic.name for topic in response.responses] == ["t"]
        found = response.responses[0].partition_responses
        return [(answer.error_code, answer.base_offset) for answer in found]

    assert await answers(client_batch(1), client_batch(4)) == [(0, 0)]
    assert broker.log.end_offset == 4
    assert await answers(client_batch(1), b"") == [(ErrorCode.INVALID_RECORD, -1)]
    assert broker.log.end_offset == 4


async def test_bytes_that_are_no_batch_fail_their_partition_alone(broker: Broker) -> None:
    broker.order(0, 1, replicas=[0], tp=TopicPartition("t", 1))
    request = produce_request(client_batch())
    bad = m.ProduceRequest.PartitionProduceData(index=1, records=memoryview(bytes(40)))
    request.topic_data[0].partition_data.append(bad)
    response = await produce.handle(broker.context(9), request)
    assert response is not None
    found = response.responses[0].partition_responses
    assert [each.error_code for each in found] == [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE]


async def test_acks_zero_says_nothing_or_ends_the_connection(broker: Broker) -> None:
    context = broker.context(9)
    assert await produce.handle(context, produce_request(client_batch(), acks=0)) is None
    assert broker.log.end_offset == 1
    with pytest.raises(KafkaError) as raised:
        await produce.handle(context, produce_request(client_batch(), acks=0, topic="x"))
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_rejected_records_are_named(broker: Broker) -> None:
    broker.log_manager.update_settings(
        "t", type(broker.topic)(cleanup_policy=frozenset({"compact"}))
    )
    keyless = records.build_batch([records.Record(b"k", b"v", 1), records.Record(None, b"v", 1)])
    answer = await send(broker, keyless)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message == "One or more records have been rejected"
    assert [error.batch_index for error in answer.record_errors] == [1]


async def test_the_wrong_broker_names_the_leader(broker: Broker) -> None:
    broker.know([0, 3], leader=3)
    broker.order(3, 2, replicas=[0, 3])
    request = produce_request(client_batch(), version=10)
    response = await produce.handle(broker.context(10), request)
    assert response is not None
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 2)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(3, 9003)]


async def offset_of(
    broker: Broker, timestamp: int, *, version: int = 9, replica_id: int = -1, epoch: int = -1
) -> Any:
    request = m.ListOffsetsRequest
    part = request.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=9
    )
    response = await list_offsets.handle(
        broker.context(version),
        request(
            replica_id=replica_id, topics=[request.ListOffsetsTopic(name="t", partitions=[part])]
        ),
    )
    decoded, _ = m.ListOffsetsResponse.decode(response.encode(version), version)
    return decoded.topics[0].partitions[0]


async def test_list_offsets(broker: Broker) -> None:
    for count in (3, 4):
        await broker.produce(count)
    broker.log.advance_start_offset(1)
    expected = {
        -1: (7, -1, 1),
        -2: (1, -1, 1),
        -3: (6, FIRST_MS + 3, 1),
        -4: (1, -1, 1),
        -5: (-1, -1, -1),
        FIRST_MS + 2: (2, FIRST_MS + 2, 1),
        FIRST_MS + 99: (-1, -1, -1),
    }
    for timestamp, values in expected.items():
        answer = await offset_of(broker, timestamp)
        assert (answer.offset, answer.timestamp, answer.leader_epoch) == values, timestamp
        assert answer.error_code == ErrorCode.NONE
    for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 9)):
        answer = await offset_of(broker, timestamp, version=version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await offset_of(broker, -1, version=0)).old_style_offsets == [7, 1]
    assert (await offset_of(broker, -2, version=0)).old_style_offsets == [1]
    assert (await offset_of(broker, -1, epoch=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_new_leader_does_not_know_its_end_yet(broker: Broker) -> None:
    broker.know([0, 1])
    broker.order(0, 2, replicas=[0, 1])
    await broker.produce(2)
    broker.order(0, 3, replicas=[0, 1])
    assert broker.partition.epoch_start_offset == 2
    answer = await offset_of(broker, -1)
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    answer = await offset_of(broker, -1, version=4)
    assert answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (await offset_of(broker, -1, replica_id=1)).offset == 2


async def test_an_isolation_level_that_does_not_exist(broker: Broker) -> None:
    for handler, request in (
        (list_offsets, m.ListOffsetsRequest(isolation_level=2)),
        (fetch, m.FetchRequest(isolation_level=-1)),
    ):
        with pytest.raises(KafkaError) as raised:
            await handler.handle(broker.context(9), request)
        assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_partition_named_twice(broker: Broker) -> None:
    request = m.ListOffsetsRequest
    part = request.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = request.ListOffsetsTopic(name="t", partitions=[part, part])
    answer = await list_offsets.handle(broker.context(6), request(topics=[topic]))
    codes = [partition.error_code for partition in answer.topics[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


async def test_offset_for_leader_epoch(broker: Broker) -> None:
    await broker.produce(3)
    broker.order(0, 4, replicas=[0])
    await broker.produce(2)

    async def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
        request = m.OffsetForLeaderEpochRequest
        part = request.OffsetForLeaderPartition(
            partition=0, leader_epoch=epoch, current_leader_epoch=current
        )
        topic = request.OffsetForLeaderTopic(topic="t", partitions=[part])
        response = await offset_for_leader_epoch.handle(broker.context(4), request(topics=[topic]))
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert await end_of(1) == (0, 1, 3)
    assert await end_of(3) == (0, 1, 3)
    assert await end_of(4, current=4) == (0, 4, 5)
    assert await end_of(9) == (0, -1, -1)
    assert (await end_of(4, current=3))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert (await end_of(4, current=5))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


async def delete_before(
    broker: Broker, offset: int, tp: TopicPartition = TP, timeout_ms: int = 60
) -> tuple[int, int]:
    request = m.DeleteRecordsRequest
    part = request.DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
    topic = request.DeleteRecordsTopic(name=tp.topic, partitions=[part])
    response = await delete_records.handle(
        broker.context(2), request(topics=[topic], timeout_ms=timeout_ms)
    )
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def test_delete_records(broker: Broker) -> None:
    await broker.produce(10)
    assert await delete_before(broker, 4) == (0, 4)
    assert await delete_before(broker, 2) == (0, 4)
    assert await delete_before(broker, 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await delete_before(broker, -5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await delete_before(broker, -1) == (0, 10)
    unknown = TopicPartition("x", 0)
    assert (await delete_before(broker, 0, unknown))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    internal = TopicPartition("__consumer_offsets", 0)
    assert (await delete_before(broker, 0, internal))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.know([0], topics=["t", internal.topic])
    assert (await delete_before(broker, 0, internal))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    compacted = type(broker.topic)(cleanup_policy=frozenset({"compact"}))
    broker.log_manager.update_settings("t", compacted)
    assert (await delete_before(broker, 0))[0] == ErrorCode.POLICY_VIOLATION


async def test_a_partition_that_delete_records_names_twice(broker: Broker) -> None:
    await broker.produce(10)
    request = m.DeleteRecordsRequest
    topics = [
        request.DeleteRecordsTopic(
            name=name, partitions=[request.DeleteRecordsPartition(partition_index=0, offset=offset)]
        )
        for name, offset in (("t", 6), ("x", 0), ("t", 5))
    ]
    response = await delete_records.handle(broker.context(2), request(topics=topics, timeout_ms=60))
    found = {topic.name: topic.partitions[0].low_watermark for topic in response.topics}
    assert found == {"t": 5, "x": -1} and len(response.topics) == 2


async def test_a_new_log_start_ends_the_waits_of_followers_only(broker: Broker) -> None:
    broker.know([0, 1])
    broker.order(0, 2, replicas=[0, 1])
    await broker.produce(3)
    want = FetchPartition(3, 100, log_start_offset=0)
    await broker.fetches.fetch(FetchParams(replica_id=1), [(TP, want)])
    consumer, follower = (
        asyncio.ensure_future(
            broker.fetches.fetch(
                FetchParams(replica_id=replica_id, max_wait_ms=60_000), [(TP, want)]
            )
        )
        for replica_id in (-1, 1)
    )
    await asyncio.sleep(0)
    assert (await delete_before(broker, 1, timeout_ms=0))[0] == ErrorCode.REQUEST_TIMED_OUT
    ((_, answer),) = await follower
    assert answer.log_start_offset == 1
    assert not consumer.done()
    await broker.produce(1)
    ((_, at_end),) = await broker.fetches.fetch(
        FetchParams(replica_id=1), [(TP, FetchPartition(4, 100, log_start_offset=1))]
    )
    assert at_end.size == 0
    ((_, answer),) = await consumer
    assert answer.size > 0


async def test_delete_records_waits_for_live_followers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.know([0, 1])
    broker.order(0, 2, replicas=[0, 1])
    await broker.produce(3)
    follower = FetchParams(replica_id=1)

    async def fetched(offset: int, start: int) -> None:
        want = FetchPartition(offset, 100, log_start_offset=start)
        await broker.fetches.fetch(follower, [(TP, want)])

    await fetched(3, 0)
    assert await delete_before(broker, 2) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    seen: list[int] = []
    low_watermark = Partition.low_watermark

    def look(partition: Partition, alive: Any) -> int:
        seen.append(low_watermark(partition, alive))
        return seen[-1]

    monkeypatch.setattr(Partition, "low_watermark", look)
    waiting = asyncio.ensure_future(delete_before(broker, 3, timeout_ms=2000))
    await until(lambda: len(seen) > 1)
    assert max(seen) < 3 and not waiting.done()
    await fetched(3, 3)
    assert await waiting == (0, 3)
