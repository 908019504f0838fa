"""Three brokers and librdkafka: topics, records, leaders that come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from ottla.broker.membership.registration import RegistrationError
from ottla.types import TopicPartition
from tests.support.integration.local_cluster import LocalCluster
from tests.support.known_topics import await_known


def _create(bootstrap: str, name: str, partitions: int, factor: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, partitions, factor, config=settings)
    admin.create_topics([topic], operation_timeout=10)[name].result(15)
    await_known(bootstrap, name, partitions)


def _produce(bootstrap: str, topic: str, values: range, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    failures: list[Any] = []
    for value in values:
        producer.produce(
            topic,
            str(value).encode(),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def _consume(bootstrap: str, topic: str, count: int, group: str = "g") -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    values: list[int] = []
    try:
        silent = 0
        while len(values) < count and silent < 200:
            message = consumer.poll(0.1)
            silent = 0 if message is not None else silent + 1
            if message is not None and message.error() is None:
                values.append(int(message.value()))
        return sorted(values)
    finally:
        consumer.close()


async def _run(call: Any, *args: Any, **kwargs: Any) -> Any:
    return await asyncio.to_thread(call, *args, **kwargs)


async def test_create_produce_consume(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 3, 3)
    await cluster.until_all_know("t", 3, 3)
    await _run(_produce, cluster.bootstrap, "t", range(500))
    assert await _run(_consume, cluster.bootstrap, "t", 500) == list(range(500))
    ends = {
        tuple(
            node.services.replica_manager.partitions.log(TopicPartition("t", p)).end_offset
            for p in range(3)
        )
        for node in cluster.nodes.values()
    }
    assert len(ends) == 1, "all replicas hold the same"
    assert sum(ends.pop()) == 500


async def test_a_broker_leaves_in_order_and_comes_back(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 3, 3)
    await cluster.until_all_know("t", 3, 3)
    await _run(_produce, cluster.bootstrap, "t", range(100))
    await cluster.stop(1)
    await cluster.until_all_know("t", 3, 2)
    for node in cluster.nodes.values():
        states = node.services.metadata_cache.topic_partitions("t").values()
        assert all(state.leader != 1 for state in states)
    await _run(_produce, cluster.bootstrap, "t", range(100, 200))
    await cluster.start(1)
    await cluster.until_all_know("t", 3, 3)
    assert await _run(_consume, cluster.bootstrap, "t", 200) == list(range(200))


async def test_the_controller_goes_without_a_word(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 3, 3)
    await cluster.until_all_know("t", 3, 3)
    await _run(_produce, cluster.bootstrap, "t", range(100))
    gone = cluster.controller
    await cluster.stop(gone.broker_id, controlled=False)
    await cluster.until_all_know("t", 3, 2)
    assert cluster.controller is not gone
    assert cluster.controller.controller.epoch == 2
    await _run(_produce, cluster.bootstrap, "t", range(100, 200))
    assert await _run(_consume, cluster.bootstrap, "t", 200) == list(range(200))


async def test_a_lost_session_is_followed_by_a_new_life(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 3, 3)
    await cluster.until_all_know("t", 3, 3)
    node = cluster.controller
    old_epoch = node.services.orders.epochs.broker_epoch
    session = cluster.store.engine.sessions.get(node.services.store.session_id)
    cluster.store.engine.expire_session(session)
    await cluster.until(
        lambda: node.services.orders.epochs.broker_epoch > old_epoch, "registered again"
    )
    await cluster.until(
        lambda: any(n.controller.is_active for n in cluster.nodes.values()), "a controller"
    )
    await cluster.until_all_know("t", 3, 3)
    await _run(_produce, cluster.bootstrap, "t", range(100))
    assert await _run(_consume, cluster.bootstrap, "t", 100) == list(range(100))
    await _run(_create, cluster.bootstrap, "u", 1, 3)


async def test_expand_delete_and_create_again(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 1, 2)
    await cluster.until_all_know("t", 1, 2)
    first_id = cluster.nodes[0].services.metadata_cache.topic_id("t")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    await _run(admin.create_partitions([NewPartitions("t", 4)])["t"].result, 15)
    await cluster.until_all_know("t", 4, 2)
    with pytest.raises(KafkaException, match="Topic already has 4 partitions"):
        await _run(admin.create_partitions([NewPartitions("t", 4)])["t"].result, 15)
    await _run(admin.delete_topics(["t"], operation_timeout=10)["t"].result, 15)
    await cluster.until(
        lambda: (
            not any(
                node.services.metadata_cache.contains_topic("t") for node in cluster.nodes.values()
            )
        ),
        "t is gone everywhere",
    )
    store = cluster.nodes[0].services.store

    async def znode_gone() -> bool:
        return await store.exists("/brokers/topics/t") is None

    for _ in range(200):
        if await znode_gone():
            break
        await asyncio.sleep(0.02)
    assert await znode_gone()
    await _run(_create, cluster.bootstrap, "t", 2, 3)
    await cluster.until_all_know("t", 2, 3)
    assert cluster.nodes[0].services.metadata_cache.topic_id("t") != first_id
    await _run(_produce, cluster.bootstrap, "t", range(50))
    assert await _run(_consume, cluster.bootstrap, "t", 50) == list(range(50))


async def test_topics_are_created_by_writing_to_them(cluster: LocalCluster) -> None:
    other = next(node for node in cluster.nodes.values() if not node.controller.is_active)
    bootstrap = f"127.0.0.1:{other.port}"
    await _run(_produce, bootstrap, "made-by-use", range(10))
    assert await _run(_consume, bootstrap, "made-by-use", 10) == list(range(10))


async def test_configs_hold_from_the_start_and_change_live(cluster: LocalCluster) -> None:
    await _run(_create, cluster.bootstrap, "t", 1, 3, retention_ms="123456")
    tp = TopicPartition("t", 0)
    logs = [node.services.replica_manager.partitions.log(tp) for node in cluster.nodes.values()]
    assert [log.settings.retention_ms for log in logs if log is not None] == [123456] * 3
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entry = ConfigEntry("retention.ms", "99", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    await _run(admin.incremental_alter_configs([resource])[resource].result, 15)
    await cluster.until(
        lambda: all(log is not None and log.settings.retention_ms == 99 for log in logs),
        "the new retention on every broker",
    )
    asked = ConfigResource(ResourceType.TOPIC, "t")
    found = await _run(admin.describe_configs([asked])[asked].result, 15)
    assert found["retention.ms"].value == "99"


async def test_a_second_broker_with_the_same_id_dies(cluster: LocalCluster) -> None:
    second = LocalCluster(cluster.folder / "second")
    second.store = cluster.store
    with pytest.raises(RegistrationError, match="node already exists and owner"):
        await second.start(1, zookeeper_session_timeout_ms="500")
    assert cluster.nodes[1].services.metadata_cache.broker(1) is not None


async def test_a_restart_waits_for_the_old_session(cluster: LocalCluster) -> None:
    """As after kill -9: the data folder is free, the session is not over yet."""
    old = cluster.nodes.pop(1)
    store = old.services.store
    await _stop_without_closing_the_session(old)
    node = await cluster.start(1)
    assert node.services.store.session_id != store.session_id
    await cluster.until(
        lambda: all(n.services.metadata_cache.broker(1) for n in cluster.nodes.values()),
        "broker 1 is back everywhere",
    )


async def _stop_without_closing_the_session(node: Any) -> None:
    store = node.services.store
    connection = store._session.connection
    store._session._runner.cancel()
    connection.abort()
    store._session._closed = True
    await node.stop(controlled=False)


async def test_a_broker_stops_soon_when_the_store_is_gone(cluster: LocalCluster) -> None:
    await cluster.store.stop()
    started = asyncio.get_running_loop().time()
    await cluster.stop(0)
    assert asyncio.get_running_loop().time() - started < 6
