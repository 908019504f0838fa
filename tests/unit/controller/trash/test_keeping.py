"""What goes into the trash, what does not, and what cannot be deleted at all."""

from __future__ import annotations

import pytest

from ottla.controller.controller import Controller
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.znodes import (
    ConfigZnode,
    DeleteTopicZnode,
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID = b"i" * 16
T0 = TopicPartition("t", 0)
DAY_MS = 86_400_000


async def test_replicas_on_brokers_of_another_kind_go_for_good(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0, delete_retention_ms=1000)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    await cluster.delete_topic("t")
    await eventually(lambda: not controller.is_queued_for_deletion("t"))
    assert not await cluster.exists(TopicZnode.path("t"))
    assert not await cluster.exists(EndedTopicZnode.path(ID))
    told = [event for event in controller.journal.recent() if event.to_state == "NotKept"]
    assert [(event.topic, event.cause) for event in told] == [
        ("t", "brokers 1,2 are not Ottla's and delete at once")
    ]


async def test_a_protected_topic_stays_whoever_asks_whenever(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    path = ConfigZnode.path(ConfigZnode.TOPICS, "t")
    await cluster.create_path(path)
    await cluster.admin.set(path, ConfigZnode.encode({"ottla.delete.protect": " TRUE "}))

    async def taken_back() -> bool:
        return not await cluster.exists(DeleteTopicZnode.path("t"))

    await cluster.admin.create(DeleteTopicZnode.path("t"))
    await eventually(taken_back)
    await cluster.kill_controller(controller)
    # Nobody sees this one before the next controller does.
    await cluster.admin.create(DeleteTopicZnode.path("t"))
    controller = await cluster.start_controller(1)
    await eventually(taken_back)
    assert await cluster.exists(TopicZnode.path("t"))
    assert not controller.is_queued_for_deletion("t")
    refused = [event.error for event in controller.journal.recent() if event.error]
    assert "it is protected (ottla.delete.protect)" in refused


def epochs(cluster: ControlledCluster) -> list[int]:
    """Of `t`, that brokers were sent: their logs may have them."""
    return [
        state.leader_epoch
        for broker in cluster.brokers.values()
        for request in broker.of_type(m.LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
        if topic.topic_name == "t"
    ]


@pytest.fixture
async def ottlas(cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch) -> ControlledCluster:
    """All brokers are Ottla's."""
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    return cluster


async def come_back(cluster: ControlledCluster, controller: Controller) -> list[int]:
    """The epochs under which `t` is led from then on."""
    await eventually(lambda: not controller.is_queued_for_deletion("t"))
    cluster.clear()
    assert await controller.trash.undelete_topic("t", ID, None) == ID
    await cluster.settle()
    return epochs(cluster)


async def test_no_epoch_is_used_twice_when_another_controller_ends_the_deletion(
    ottlas: ControlledCluster,
) -> None:
    """It tells brokers what stands in the store before it goes on: the stops of the first have
    raised that, and not all of them had come."""
    controller = await ottlas.start_controller(0, delete_retention_ms=DAY_MS)
    await ottlas.create_topic("t", {0: (0, 1, 2)}, topic_id=ID)
    for broker in ottlas.brokers.values():
        broker.answers.clear()
    await ottlas.delete_topic("t")
    await ottlas.kill_controller(controller)
    # Brokers are stopped one by one: the leader may be the last.
    halfway = LeaderAndIsr(0, 2, (0,), controller.epoch)
    await ottlas.admin.set(
        TopicPartitionStateZnode.path(T0), TopicPartitionStateZnode.encode(halfway)
    )
    for broker in ottlas.brokers.values():
        broker.answers.set()
    second = await ottlas.start_controller(1, delete_retention_ms=DAY_MS)
    seen = epochs(ottlas)
    assert 2 in seen
    assert min(await come_back(ottlas, second)) > max(seen)


async def test_no_epoch_is_used_twice_when_a_leader_comes_back_to_be_stopped(
    ottlas: ControlledCluster,
) -> None:
    """The topic moves, its leader goes: nobody else is elected for a topic that is to be deleted,
    but the stops of the others raise the epoch under which the leader returns."""
    controller = await ottlas.start_controller(0, delete_retention_ms=DAY_MS)
    await ottlas.create_topic("t", {0: (0, 1)}, topic_id=ID)
    await controller.alter_partition_reassignments({T0: (0, 2)})
    await ottlas.delete_topic("t")
    ottlas.brokers[1].answers.clear()
    await ottlas.stop_broker(0)
    await ottlas.settle()
    assert await ottlas.exists(EndedTopicZnode.path(ID))
    ottlas.clear()
    await ottlas.start_broker(0)
    await eventually(lambda: epochs(ottlas))
    seen = epochs(ottlas)
    ottlas.brokers[1].answers.set()
    assert min(await come_back(ottlas, controller)) > max(seen)


async def delete_without_answers(cluster: ControlledCluster) -> Controller:
    """The entry of `t` is written, and no broker has said yet that its log is set aside."""
    controller = await cluster.start_controller(0, delete_retention_ms=DAY_MS)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    for broker in cluster.brokers.values():
        broker.answers.clear()
    await cluster.delete_topic("t")
    await eventually(lambda: cluster.exists(EndedTopicZnode.path(ID)))
    return controller


async def state_when_back(cluster: ControlledCluster, controller: Controller) -> LeaderAndIsr:
    assert await controller.trash.undelete_topic("t", ID, None) == ID
    await cluster.settle()
    state = await cluster.state("t")
    assert state is not None
    return state


@pytest.mark.parametrize("returns", [True, False])
async def test_who_was_away_before_its_log_was_set_aside_does_not_lead_when_the_topic_is_back(
    ottlas: ControlledCluster, returns: bool
) -> None:
    """It may have lost what it had not synced, and the others would cut theirs (ADR 22)."""
    controller = await delete_without_answers(ottlas)
    await ottlas.stop_broker(1)
    if returns:
        await ottlas.start_broker(1)
    for broker in ottlas.brokers.values():
        broker.answers.set()
    await eventually(lambda: not controller.is_queued_for_deletion("t"))
    if not returns:
        await ottlas.start_broker(1)
        await ottlas.settle()
    state = await state_when_back(ottlas, controller)
    assert (state.leader, state.isr) == (2, (2,))


async def test_a_topic_that_all_were_away_of_keeps_its_isr(ottlas: ControlledCluster) -> None:
    controller = await delete_without_answers(ottlas)
    for broker_id in (1, 2):
        await ottlas.stop_broker(broker_id)
        await ottlas.start_broker(broker_id)
    for broker in ottlas.brokers.values():
        broker.answers.set()
    await eventually(lambda: not controller.is_queued_for_deletion("t"))
    state = await state_when_back(ottlas, controller)
    assert state.isr == (1, 2)
