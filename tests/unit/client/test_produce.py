"""The small producer: partitions, batches, attempts, sequence numbers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.produce import TopicProducer
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.wire.records import Record
from tests.support.client.fake_kafka import RANGES, FakeKafka, silent_leader, topic
from tests.support.client.fake_store import Store


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, RANGES | {0: (0, 9), 22: (0, 4)}).start()
    fake.topics = [topic("t", 1, 1)]
    fake.on(m.InitProducerIdRequest, lambda _: m.InitProducerIdResponse(producer_id=7))
    yield fake
    await fake.stop()


@pytest.fixture
def store(kafka: FakeKafka) -> Store:
    store = Store()
    kafka.on(m.ProduceRequest, store.produce)
    return store


@pytest.fixture
async def cluster(kafka: FakeKafka) -> AsyncIterator[Cluster]:
    async with Cluster(system_runtime(), kafka.address) as cluster:
        yield cluster


async def started(cluster: Cluster, **options: Any) -> TopicProducer:
    producer = TopicProducer(cluster, "t", rng=random.Random(1), **options)
    await producer.start()
    return producer


def record(value: bytes) -> Record:
    return Record(None, value, 5)


async def test_order_and_sequence_numbers(cluster: Cluster, store: Store) -> None:
    producer = await started(cluster)
    for value in (b"a", b"b"):
        await producer.send(record(value), partition=0)
    await producer.send(record(b"c"), partition=1)
    assert (producer.buffered, producer.acknowledged) == (3, 0)
    await producer.flush()
    await producer.send(record(b"d"), partition=0)
    await producer.flush()
    assert store.batches == [(0, 0, [b"a", b"b"]), (1, 0, [b"c"]), (0, 2, [b"d"])]
    assert (producer.buffered, producer.acknowledged) == (0, 4)


async def test_what_passes_is_sent_again_the_same(cluster: Cluster, store: Store) -> None:
    producer = await started(cluster)
    store.codes = [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        0,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ]
    await producer.send(record(b"a"), partition=0)
    await producer.send(record(b"b"), partition=1)
    await producer.flush()
    again = (0, 0, [b"a"])
    assert store.batches == [again, (1, 0, [b"b"]), again, again]
    assert producer.acknowledged == 2


async def test_a_leader_that_says_nothing_leaves_time_for_its_successor(
    kafka: FakeKafka, store: Store
) -> None:
    async with (
        silent_leader(kafka, m.ProduceRequest),
        Cluster(system_runtime(), kafka.address, request_timeout_ms=50) as cluster,
    ):
        producer = await started(cluster)
        await producer.send(record(b"a"), partition=0)
        await producer.flush()
    # More than once where this machine is slower than the time-out.
    assert store.batches[0] == (0, 0, [b"a"]) == store.batches[-1]


async def test_what_does_not_pass_is_raised(cluster: Cluster, store: Store) -> None:
    producer = await started(cluster)
    store.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    await producer.send(record(b"a"), partition=0)
    with pytest.raises(KafkaError, match="t: ") as raised:
        await producer.flush()
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError, match="has 2 partitions, there is no 2"):
        await producer.send(record(b"a"), partition=2)


async def test_full_batches_go_by_themselves(cluster: Cluster, store: Store) -> None:
    producer = await started(cluster, batch_bytes=200, acks=1)
    for _ in range(5):
        await producer.send(record(b"x" * 60), partition=0)
    assert [len(values) for _, _, values in store.batches] == [2, 2]
    assert {sequence for _, sequence, _ in store.batches} == {-1}, "not idempotent with acks=1"


async def test_no_producer_id_for_this_user(
    kafka: FakeKafka, cluster: Cluster, store: Store
) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    kafka.on(m.InitProducerIdRequest, lambda _: m.InitProducerIdResponse(error_code=code))
    producer = await started(cluster)
    await producer.send(record(b"a"), partition=0)
    await producer.flush()
    assert store.batches == [(0, -1, [b"a"])]


async def test_a_topic_that_is_not_there(kafka: FakeKafka, cluster: Cluster) -> None:
    kafka.topics = [topic("t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    with pytest.raises(KafkaError, match="t: This server does not host this topic-partition"):
        await started(cluster)
