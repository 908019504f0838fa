"""Deletion while a broker is down: Ottla's own is not waited for, any other is (ADR 13)."""

from __future__ import annotations

from typing import Any

from ottla.broker.membership.registration import register
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.controller.controlled_cluster import ControlledCluster, eventually


async def start_ottla_broker(cluster: ControlledCluster, broker_id: int) -> None:
    """Registers as the real broker does, with the mark."""
    store = EmbeddedStore(cluster.engine)
    cluster.registrations[broker_id] = store
    await register(store, cluster.info(broker_id), session_timeout_ms=1000)
    await cluster.settle()


async def replace_by_ottla(cluster: ControlledCluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        await cluster.stop_broker(broker_id)
        await start_ottla_broker(cluster, broker_id)


async def stop(cluster: ControlledCluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        await cluster.stop_broker(broker_id)
    await cluster.settle()


async def is_gone(cluster: ControlledCluster, topic: str = "t") -> bool:
    paths = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
    return not any([await cluster.exists(f"{path}/{topic}") for path in paths])


def stop_orders(cluster: ControlledCluster, broker_id: int) -> list[Any]:
    return cluster.brokers[broker_id].of_type(m.StopReplicaRequest)


async def test_a_dead_ottla_broker_does_not_hold_the_name(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1, 2)
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 1)})
    await stop(cluster, 2)
    await cluster.delete_topic("t")
    await eventually(lambda: is_gone(cluster))
    await cluster.settle()
    assert not controller.is_queued_for_deletion("t")
    assert stop_orders(cluster, 1), "the living broker was told to delete"
    await cluster.create_topic("t", {0: (1,)}, topic_id=b"n" * 16)
    state = await cluster.state("t")
    assert state is not None and state.leader == 1


async def test_a_topic_without_a_living_replica_goes_at_once(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1, 2)
    await cluster.create_topic("t", {0: (1, 2)})
    await stop(cluster, 1, 2)
    await cluster.delete_topic("t")
    assert await is_gone(cluster)


async def test_any_other_dead_broker_blocks_as_in_kafka(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1)
    await cluster.create_topic("t", {0: (0, 1, 2)})
    await stop(cluster, 1, 2)
    await cluster.delete_topic("t")
    assert controller.is_queued_for_deletion("t")
    assert await cluster.exists("/brokers/topics/t")
    await start_ottla_broker(cluster, 1)
    assert await cluster.exists("/brokers/topics/t")
    assert stop_orders(cluster, 1)[-1].topic_states[0].partition_states[0].delete_partition
    await cluster.start_broker(2)
    await eventually(lambda: is_gone(cluster))


async def test_a_broker_that_dies_while_it_deletes(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1, 2)
    await cluster.create_topic("t", {0: (1, 2)})
    cluster.brokers[2].answers.clear()
    await cluster.delete_topic("t")
    assert await cluster.exists("/brokers/topics/t")
    await stop(cluster, 2)
    await eventually(lambda: is_gone(cluster))


async def test_a_new_controller_knows_the_dead_by_their_marks(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1, 2)
    await cluster.create_topic("t", {0: (1, 2)})
    await stop(cluster, 2)
    await cluster.kill_controller(first)
    await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(0)
    await eventually(lambda: is_gone(cluster))


async def test_an_id_that_another_program_takes_loses_its_mark(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await replace_by_ottla(cluster, 1, 2)
    assert await cluster.exists(OttlaBrokerZnode.path(2))
    await stop(cluster, 2)
    await cluster.start_broker(2)
    await cluster.settle()
    assert not await cluster.exists(OttlaBrokerZnode.path(2))
    assert await cluster.exists(OttlaBrokerZnode.path(1))
    await cluster.create_topic("t", {0: (1, 2)})
    await stop(cluster, 2)
    await cluster.delete_topic("t")
    assert controller.is_queued_for_deletion("t")


async def test_a_mark_is_checked_by_a_new_controller_too(cluster: ControlledCluster) -> None:
    await replace_by_ottla(cluster, 1, 2)
    await stop(cluster, 2)
    await cluster.start_broker(2)
    await cluster.start_controller(0)
    assert not await cluster.exists(OttlaBrokerZnode.path(2))
    assert await cluster.exists(OttlaBrokerZnode.path(1))
