"""Batches that are stored once: identity, sequence numbers, attempts, failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.sender import NOBODY, BatchSender, NotStored, ProducerIdentity
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from tests.support.client.fake_kafka import RANGES, FakeKafka, topic
from tests.support.client.fake_store import Store

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
VERSIONS = RANGES | {0: (0, 13), 22: (0, 4)}


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, dict(VERSIONS)).start()
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


def batch(value: bytes) -> memoryview:
    return memoryview(build_batch([Record(None, value, 5)]))


def seen(kafka: FakeKafka, request_class: type) -> list[tuple[Any, int]]:
    return [(request, version) for request, version in kafka.seen if type(request) is request_class]


async def test_sequence_numbers_count_records_of_each_partition(
    kafka: FakeKafka, cluster: Cluster
) -> None:
    sender = BatchSender(cluster)
    await sender.start()
    assert sender.identity == (7, 0)
    assert [sender.take_sequence(FIRST, 3), sender.take_sequence(FIRST, 1)] == [0, 3]
    assert sender.take_sequence(SECOND, 1) == 0
    assert sender.take_sequence(FIRST, (1 << 31) - 5) == 4
    assert sender.take_sequence(FIRST, 1) == (1 << 31) - 1
    assert sender.take_sequence(FIRST, 1) == 0, "after the largest comes the first"


@pytest.mark.parametrize("acks", [0, 1])
async def test_nobody_writes_without_sequence_numbers(
    kafka: FakeKafka, cluster: Cluster, acks: int
) -> None:
    sender = BatchSender(cluster, acks=acks)
    await sender.start()
    assert (sender.identity, sender.take_sequence(FIRST, 3)) == (NOBODY, -1)
    assert seen(kafka, m.InitProducerIdRequest) == []


async def test_brokers_that_know_no_producer_ids(kafka: FakeKafka, cluster: Cluster) -> None:
    del kafka.ranges[22]
    sender = BatchSender(cluster)
    await sender.start()
    assert sender.identity == NOBODY


async def test_a_coordinator_that_still_loads_is_asked_again(
    kafka: FakeKafka, cluster: Cluster
) -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    kafka.on(
        m.InitProducerIdRequest,
        lambda _: m.InitProducerIdResponse(error_code=codes.pop(0), producer_id=9),
    )
    sender = BatchSender(cluster)
    await sender.start()
    assert sender.identity == (9, 0)


async def test_a_transaction_brings_its_identity(
    kafka: FakeKafka, cluster: Cluster, store: Store
) -> None:
    sender = BatchSender(cluster, transactional_id="x", identity=ProducerIdentity(3, 2))
    await sender.start()
    assert seen(kafka, m.InitProducerIdRequest) == []
    assert (sender.identity, sender.take_sequence(FIRST, 1)) == ((3, 2), 0)
    await sender.send({FIRST: batch(b"a")})
    ((request, version),) = seen(kafka, m.ProduceRequest)
    assert (request.transactional_id, request.acks, version) == ("x", -1, 11)


async def test_only_what_failed_is_sent_again_after_one_look_at_the_topic(
    kafka: FakeKafka, cluster: Cluster, store: Store
) -> None:
    kafka.topics = [topic("t", 1, 1, 1)]
    store.codes = [ErrorCode.NOT_ENOUGH_REPLICAS, 0, ErrorCode.CONCURRENT_TRANSACTIONS]
    sender = BatchSender(cluster)
    pending = {TopicPartition("t", number): batch(b"%d" % number) for number in range(3)}
    await sender.send(pending)
    assert [(index, values) for index, _, values in store.batches] == [
        *((0, [b"0"]), (1, [b"1"]), (2, [b"2"])),
        *((0, [b"0"]), (2, [b"2"])),
    ]
    assert pending == {}
    looks = [request for request, _ in seen(kafka, m.MetadataRequest) if request.topics]
    assert len(looks) == 2, "one before the first attempt, one before the second"


async def test_what_is_refused_for_good_stays_behind(cluster: Cluster, store: Store) -> None:
    store.codes = [0, ErrorCode.PRODUCER_FENCED]
    pending = {FIRST: batch(b"a"), SECOND: batch(b"b")}
    with pytest.raises(NotStored) as raised:
        await BatchSender(cluster).send(pending)
    assert (raised.value.code, raised.value.partition) == (ErrorCode.PRODUCER_FENCED, SECOND)
    assert list(pending) == [SECOND]
    assert len(store.batches) == 2


async def test_what_passes_is_raised_when_the_time_is_over(cluster: Cluster, store: Store) -> None:
    store.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 50
    with pytest.raises(KafkaError) as raised:
        await BatchSender(cluster, timeout_ms=250).send({FIRST: batch(b"a")})
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert 1 <= len(store.batches) <= 3


async def test_acks_0_waits_for_no_answer(kafka: FakeKafka, cluster: Cluster, store: Store) -> None:
    kafka.on(m.ProduceRequest, lambda _: None)
    pending = {FIRST: batch(b"a")}
    await BatchSender(cluster, acks=0).send(pending)
    assert pending == {}


async def test_what_an_answer_leaves_out_is_not_stored(kafka: FakeKafka, cluster: Cluster) -> None:
    kafka.on(m.ProduceRequest, lambda _: m.ProduceResponse(responses=[]))
    with pytest.raises(NotStored, match="broker 1 answered without the partition"):
        await BatchSender(cluster).send({FIRST: batch(b"a")})
