"""Quotas set through AlterClientQuotas slow clients down, who are told so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.cluster import Cluster as ClientCluster
from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.testing.cluster import Cluster
from ottla.wire import messages as m

WAIT_S = 20.0


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    # Short windows, short waits.
    windows = {"quota.window.num": "3", "controller.quota.window.num": "1"}
    with Cluster(brokers=1, overrides=windows) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(WAIT_S)
        yield cluster


async def alter(running: Cluster, entity: dict[str, str | None], **quotas: float | None) -> Any:
    request = m.AlterClientQuotasRequest
    async with ClientCluster(system_runtime(), running.bootstrap_servers) as cluster:
        answer = await cluster.send_to_any(
            request(
                entries=[
                    request.EntryData(
                        entity=[
                            request.EntityData(entity_type=kind, entity_name=name)
                            for kind, name in entity.items()
                        ],
                        ops=[
                            request.OpData(key=key, value=value or 0.0, remove=value is None)
                            for key, value in quotas.items()
                        ],
                    )
                ]
            )
        )
    (entry,) = answer.entries
    # The broker hears of it from the store, a moment later.
    await asyncio.sleep(0.3)
    return entry


async def describe(running: Cluster) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    async with ClientCluster(system_runtime(), running.bootstrap_servers) as cluster:
        answer = await cluster.send_to_any(m.DescribeClientQuotasRequest())
    assert answer.error_code == 0
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries
    ]


class Waits:
    """What librdkafka says of being throttled."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, event: Any) -> None:
        self.seconds.append(event.throttle_time)


def produce(running: Cluster, client_id: str, count: int) -> tuple[float, list[float]]:
    """How long it took, and the waits that the broker asked for."""
    waits = Waits()
    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "client.id": client_id,
            "linger.ms": 0,
            "batch.num.messages": 10,
            "throttle_cb": waits,
        }
    )
    begun = time.monotonic()
    for _ in range(count):
        producer.produce("t", bytes(1000))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    return time.monotonic() - begun, waits.seconds


async def test_a_producer_is_slowed_down(running: Cluster) -> None:
    entry = await alter(running, {"client-id": "slow"}, producer_byte_rate=60_000)
    assert entry.error_code == 0, entry.error_message
    assert await describe(running) == [({"client-id": "slow"}, {"producer_byte_rate": 60_000.0})]
    # 260 kB: what two seconds allow, and more.
    slow_s, waits = produce(running, "slow", 260)
    assert slow_s > 0.5 and any(wait > 0 for wait in waits), (slow_s, waits)
    quick_s, waits = produce(running, "quick", 260)
    assert quick_s < slow_s and waits == []
    await alter(running, {"client-id": "slow"}, producer_byte_rate=None)
    assert await describe(running) == []
    assert produce(running, "slow", 260)[1] == []


async def test_a_consumer_is_slowed_down(running: Cluster) -> None:
    produce(running, "any", 300)
    await alter(running, {"user": None, "client-id": "reader"}, consumer_byte_rate=80_000)
    waits = Waits()
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "client.id": "reader",
            "group.id": "none",
            "fetch.message.max.bytes": 50_000,
            "throttle_cb": waits,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    begun = time.monotonic()
    assert len(consumer.consume(260, WAIT_S)) == 260
    taken_s = time.monotonic() - begun
    deadline = time.monotonic() + 5
    while not waits.seconds and time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.close()
    assert taken_s > 0.5 and any(wait > 0 for wait in waits.seconds), (taken_s, waits.seconds)
    await alter(running, {"user": None, "client-id": "reader"}, consumer_byte_rate=None)


async def test_mutations_above_their_quota_hold_the_connection(running: Cluster) -> None:
    await alter(running, {"client-id": "maker"}, controller_mutation_rate=10)
    host, _, port = running.bootstrap_servers.partition(":")
    connection = await Connection.open(system_runtime().network, host, int(port), client_id="maker")
    topic = m.CreateTopicsRequest.CreatableTopic(name="m", num_partitions=15, replication_factor=1)
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    answer = await connection.send(request, 5, timeout_ms=30_000)
    begun = time.monotonic()
    # Less than half a second, where the broker took its time.
    assert answer.topics[0].error_code == 0 and answer.throttle_time_ms <= 500
    await connection.send(m.ApiVersionsRequest(), 0, timeout_ms=30_000)
    assert time.monotonic() - begun > answer.throttle_time_ms / 1000 - 0.05
    connection.close()
    await alter(running, {"client-id": "maker"}, controller_mutation_rate=None)


async def test_what_is_refused(running: Cluster) -> None:
    for entity, quota in (
        ({"ip": "1.2.3.4"}, {"producer_byte_rate": 5.0}),
        ({"client-id": "c"}, {"nope": 5.0}),
        ({"client-id": "c"}, {"producer_byte_rate": 1.5}),
        ({"client-id": "c"}, {"request_percentage": 0.0}),
        ({"planet": "x"}, {"producer_byte_rate": 1.0}),
    ):
        entry = await alter(running, entity, **quota)
        assert entry.error_code == 42 and entry.error_message
    assert await describe(running) == []
