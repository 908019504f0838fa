"""The way of a resize: what the swap writes, and what brokers are told of it."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.controller import Controller
from ottla.controller.resizing.progress import CLOSE, FENCE, RELEASE, Begun, Fenced, Resized
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.resizes import ResizePhase, ResizeZnode, StoredResize
from ottla.metadata.znodes import TopicPartitionZnode, TopicZnode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster

OLD, NEW = b"o" * 16, b"n" * 16
SHADOW = "__ottla_resize.b29vb29vb29vb29vb29vbw.0"


@pytest.fixture
def ottla_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are written in the transaction that registers a broker; here they come later."""
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))


async def begin(cluster: ControlledCluster) -> Controller:
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)}, topic_id=OLD)
    return controller


async def fence(controller: Controller, number: int = -1) -> object:
    return await controller.resizes.fence(m.FenceResizeRequest(topic="t", fence=number))


async def resize(cluster: ControlledCluster, controller: Controller) -> object:
    """To one partition, on broker 2; what the last step says."""
    request = m.BeginResizeRequest(
        topic="t", partitions=1, replication_factor=1, partitioner="murmur2"
    )
    begun = await controller.resizes.begin(request)
    assert isinstance(begun, Begun)
    await cluster.create_topic(begun.resize.shadow, {0: (2,)}, topic_id=NEW)
    cluster.brokers[0].ends, cluster.brokers[1].ends = {0: 10}, {1: 20}
    fenced = await fence(controller)
    assert isinstance(fenced, Fenced)
    assert fenced.ends == {0: 10, 1: 20}
    cluster.clear()
    finish = m.FinishResizeRequest(topic="t", topic_id=OLD, shadow_id=NEW, fence=fenced.fence)
    return await controller.resizes.finish(finish, [])


async def die_in_the_swap(
    cluster: ControlledCluster, controller: Controller, *, partitions: int, factor: int
) -> None:
    """As it leaves the store: the name has the shadow's id and assignment, and no states of it."""
    await cluster.kill_controller(controller)
    moving = StoredResize(
        *("t", OLD, SHADOW, NEW, partitions, factor, "murmur2", ResizePhase.MOVING, 1, 0)
    )
    await cluster.create_path(ResizeZnode.parent())
    await cluster.admin.create(ResizeZnode.path(OLD), ResizeZnode.encode(moving))
    data, _ = await cluster.admin.get(TopicZnode.path(SHADOW))
    await cluster.admin.set(TopicZnode.path("t"), data)


async def test_old_logs_end_by_their_id_alone(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """A stop goes by the name, under which the new topic's log may be by then."""
    controller = await begin(cluster)
    assert await resize(cluster, controller) == Resized(NEW, 0, 0)
    for broker in cluster.brokers.values():
        assert broker.of_type(m.StopReplicaRequest) == []
        kinds = [type(request).__name__ for request in broker.requests]
        # Clients hear of the new shape before anything of the old topic ends.
        assert kinds[:2] == ["UpdateMetadataRequest", "ResizeOrderRequest"]
    assert cluster.brokers[0].of_type(m.ResizeOrderRequest)[0].stage == CLOSE


async def test_every_host_of_the_old_topic_has_to_end_its_logs(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """The entry stays until each of them has: whoever is slow would else take them for strays."""
    controller = await begin(cluster)
    await resize(cluster, controller)
    data, _ = await cluster.admin.get(EndedTopicZnode.path(OLD))
    entry = EndedTopicZnode.decode(data)
    assert entry is not None
    assert entry.brokers == (0, 1)


async def test_the_next_controller_finishes_what_has_begun(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """Wherever the one before has died: here between the nodes of the new states."""
    controller = await begin(cluster)
    await cluster.create_topic(SHADOW, {0: (2,), 1: (2,), 2: (2,)}, topic_id=NEW)
    await die_in_the_swap(cluster, controller, partitions=3, factor=1)
    await cluster.create_path(TopicPartitionZnode.path(TopicPartition("t", 2)))
    before = await cluster.state("t")
    assert before is not None
    await cluster.start_controller(1)
    assert not await cluster.exists(TopicZnode.path(SHADOW))
    for number in range(3):
        state = await cluster.state("t", number)
        assert state is not None
        assert (state.leader, state.isr) == (2, (2,))
        assert state.leader_epoch > before.leader_epoch


async def test_who_came_back_unseen_does_not_lead_the_new_topic(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """A leader that lost its power, and records with it, while the swap was under way (ADR 22): its
    state is written again under the name, and is younger than its registration then."""
    controller = await begin(cluster)
    await cluster.create_topic(SHADOW, {0: (2, 0)}, topic_id=NEW)
    await die_in_the_swap(cluster, controller, partitions=1, factor=2)
    await cluster.stop_broker(2)
    await cluster.start_broker(2)
    await cluster.start_controller(1)
    state = await cluster.state("t")
    assert state is not None
    assert (state.leader, state.isr) == (0, (0,))


async def test_a_fence_stands_when_every_leader_has_told_where_its_partitions_end(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    request = m.BeginResizeRequest(
        topic="t", partitions=1, replication_factor=1, partitioner="murmur2"
    )
    begun = await controller.resizes.begin(request)
    assert isinstance(begun, Begun)
    await cluster.create_topic(begun.resize.shadow, {0: (2,)}, topic_id=NEW)
    cluster.brokers[0].ends = {0: 10}
    fenced = await fence(controller)
    assert isinstance(fenced, KafkaError)
    assert fenced.code is ErrorCode.REQUEST_TIMED_OUT
    cluster.brokers[1].ends = {1: 20}
    assert await fence(controller) == Fenced(2, {0: 10, 1: 20})
    assert await fence(controller, 2) == Fenced(2, {0: 10, 1: 20})


async def test_an_answer_for_an_earlier_fence_does_not_count(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """Between the two the broker lifts the first, and takes records."""
    controller = await begin(cluster)
    request = m.BeginResizeRequest(
        topic="t", partitions=1, replication_factor=1, partitioner="murmur2"
    )
    begun = await controller.resizes.begin(request)
    assert isinstance(begun, Begun)
    await cluster.create_topic(begun.resize.shadow, {0: (1,)}, topic_id=NEW)
    cluster.clear()
    slow = cluster.brokers[0]
    slow.ends, cluster.brokers[1].ends = {0: 10}, {1: 20}
    slow.answers.clear()
    first = asyncio.create_task(fence(controller))
    await cluster.settle()
    await cluster.stop_broker(2)
    assert isinstance(await first, KafkaError)
    second = asyncio.create_task(fence(controller))
    await cluster.settle()
    # One answer, and no more.
    slow.answers.set()
    slow.answers.clear()
    await cluster.settle()
    assert not second.done()
    slow.answers.set()
    assert isinstance(await second, Fenced)
    stages = [order.stage for order in slow.of_type(m.ResizeOrderRequest)]
    assert stages == [FENCE, RELEASE, FENCE]
