"""Calls that the lifecycle tests make on a cluster inside the test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.connection import Connection
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration.local_cluster import HOST, LocalCluster


async def ask(node: Node, request: Any, version: int) -> Any:
    """Sends one request to a broker over TCP and returns the decoded answer."""
    connection = await Connection.open(
        system_runtime().network, HOST, node.port, client_id="lifecycle-test"
    )
    try:
        return await connection.send(request, version, timeout_ms=30_000)
    finally:
        connection.close()


async def create(cluster: LocalCluster, topic: str, *replicas: list[int], **config: str) -> None:
    """A topic with exactly these replicas, ready on all brokers that live."""
    settings = {key.replace("_", "."): value for key, value in config.items()}

    def call() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new = NewTopic(topic, len(replicas), replica_assignment=list(replicas), config=settings)
        admin.create_topics([new], operation_timeout=10)[topic].result(15)

    await asyncio.to_thread(call)
    # Only the broker that was asked has waited; partitions without living replicas have no leader.
    led = {index for index, ids in enumerate(replicas) if cluster.nodes.keys() & set(ids)}

    def known() -> bool:
        states = [
            node.services.metadata_cache.topic_partitions(topic) for node in cluster.nodes.values()
        ]
        return all(
            len(found) == len(replicas) and all(found[index].leader >= 0 for index in led)
            for found in states
        )

    await cluster.until(known, f"{topic} is known to all brokers")


async def delete(cluster: LocalCluster, topic: str) -> None:
    def call() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.delete_topics([topic], operation_timeout=10)[topic].result(15)

    await asyncio.to_thread(call)


async def produce(cluster: LocalCluster, topic: str, values: range, partition: int = 0) -> None:
    def call() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        failures: list[Any] = []
        for value in values:
            producer.produce(
                topic,
                str(value).encode(),
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(30) == 0
        assert failures == []

    await asyncio.to_thread(call)


async def reassign(
    cluster: LocalCluster, topic: str, targets: dict[int, list[int] | None]
) -> dict[int, int]:
    """Error codes by partition."""
    request = m.AlterPartitionReassignmentsRequest
    partitions = [
        request.ReassignablePartition(partition_index=index, replicas=replicas)
        for index, replicas in targets.items()
    ]
    wish = request(topics=[request.ReassignableTopic(name=topic, partitions=partitions)])
    answer = await ask(cluster.controller, wish, 0)
    assert answer.error_code == 0, answer
    return {p.partition_index: p.error_code for p in answer.responses[0].partitions}


def replicas(node: Node, topic: str, partition: int = 0) -> list[int]:
    state = node.services.metadata_cache.topic_partitions(topic).get(partition)
    return [] if state is None else list(state.replicas)


def isr(node: Node, topic: str, partition: int = 0) -> set[int]:
    state = node.services.metadata_cache.topic_partitions(topic).get(partition)
    return set() if state is None else set(state.isr)


def leader(node: Node, topic: str, partition: int = 0) -> int | None:
    state = node.services.metadata_cache.topic_partitions(topic).get(partition)
    return None if state is None else int(state.leader)


def folder(cluster: LocalCluster, broker_id: int, topic: str, partition: int = 0) -> Path:
    return cluster.folder / f"broker-{broker_id}" / f"{topic}-{partition}"


async def until_true(
    check: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 10
) -> None:
    for _ in range(int(timeout_s / 0.02)):
        if await check():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


async def exists(cluster: LocalCluster, path: str) -> bool:
    return await cluster.controller.services.store.exists(path) is not None


async def controller_has_caught_up(cluster: LocalCluster) -> None:
    """Whatever the store held for the controller is dealt with, by the brokers too: changes reach
    it in their order, its requests reach each broker in theirs, and a topic made now is known and
    hosted by every broker that lives."""
    name = "made-afterwards"
    await create(cluster, name, sorted(cluster.nodes))
    await cluster.until(
        lambda: all(
            leader(node, name) is not None
            and node.services.replica_manager.partitions.log(TopicPartition(name, 0)) is not None
            for node in cluster.nodes.values()
        ),
        "every broker has what was made last",
    )


async def until_controller_known(cluster: LocalCluster) -> None:
    """librdkafka asks once who the controller is: every broker must know the present one."""

    def known() -> bool:
        active = [n.broker_id for n in cluster.nodes.values() if n.controller.is_active]
        return len(active) == 1 and all(
            n.services.metadata_cache.controller_id == active[0] for n in cluster.nodes.values()
        )

    await cluster.until(known, "every broker knows the controller")


def consume_and_commit(cluster: LocalCluster, group: str, topic: str, count: int) -> list[bytes]:
    """So many values, committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    try:
        while len(values) < count:
            for message in consumer.consume(count - len(values), timeout=1):
                assert message.error() is None or message.error().retriable()
                value = message.value()
                if message.error() is None and value is not None:
                    values.append(value)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values
