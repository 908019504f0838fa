"""A rename, and deletions of topics with either name meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.controller import Controller
from ottla.controller.renaming.progress import Renamed
from ottla.errors import KafkaError
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.znodes import ConfigZnode, DeleteTopicZnode, ReplicaAssignment, TopicZnode
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID, OTHER_ID = b"i" * 16, b"n" * 16


@pytest.fixture
async def controller(cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """All brokers are Ottla's; topic `old` is to be called `new`, and broker 1 has the groups."""
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    made = await cluster.start_controller(0)
    await cluster.create_topic(OFFSETS_TOPIC, {0: (1,)}, topic_id=b"o" * 16)
    await cluster.create_topic("old", {0: (0, 1), 1: (1, 2)}, topic_id=ID)
    return made


def begin(controller: Controller) -> asyncio.Task[object]:
    return asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))


async def until_renamed(controller: Controller) -> None:
    """Broker 1 has yet to carry its groups: until then it is asked again and again, and `settle`
    would wait for ever."""
    recent = controller.journal.recent
    await eventually(lambda: any(event.to_state == "Renamed" for event in recent()))


async def ask_for_deletion(cluster: ControlledCluster, controller: Controller, topic: str) -> None:
    await cluster.admin.create(DeleteTopicZnode.path(topic))
    await eventually(lambda: controller.is_queued_for_deletion(topic))


async def bounce(cluster: ControlledCluster, controller: Controller, broker_id: int) -> None:
    for change, how in (("dead", cluster.stop_broker), ("new", cluster.start_broker)):
        await how(broker_id)
        await eventually(lambda cause=change: is_told(controller, broker_id, cause))
    # More than the controller takes for what it does then.
    for _ in range(200):
        await asyncio.sleep(0)


def is_told(controller: Controller, broker_id: int, change: str) -> bool:
    events = controller.journal.recent()
    return any((event.broker, event.cause) == (broker_id, change) for event in events)


async def test_it_waits_also_when_a_broker_with_a_replica_comes(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """For which a deletion may wait as well."""
    renaming = begin(controller)
    await until_renamed(controller)
    await ask_for_deletion(cluster, controller, "new")
    await bounce(cluster, controller, 2)
    assert [b.of_type(m.StopReplicaRequest) for b in cluster.brokers.values()] == [[], [], []]
    cluster.brokers[1].carried = [0]
    assert isinstance(await renaming, Renamed)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path("new"))


@pytest.mark.parametrize("topic", ["old", "new"])
async def test_it_goes_on_when_the_rename_is_given_up(
    cluster: ControlledCluster, controller: Controller, topic: str
) -> None:
    """Of the topic, or of one that somebody has made by hand under the name that it was to get."""
    cluster.brokers[2].answers.clear()
    renaming = begin(controller)
    await cluster.settle()
    if topic == "new":
        await cluster.create_topic("new", {0: (0, 1)}, topic_id=OTHER_ID)
    await cluster.delete_topic(topic)
    assert await cluster.exists(TopicZnode.path(topic))
    cluster.brokers[2].answers.set()
    assert isinstance(await renaming, KafkaError)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path(topic))
    assert not controller.is_queued_for_deletion(topic)


async def test_that_of_another_topic_under_the_old_name_goes_on_at_the_end(
    cluster: ControlledCluster, controller: Controller
) -> None:
    renaming = begin(controller)
    await until_renamed(controller)
    await cluster.admin.create(ConfigZnode.path(ConfigZnode.TOPICS, "old"))
    made = TopicZnode.encode({0: ReplicaAssignment((0, 1))}, OTHER_ID)
    await cluster.admin.create(TopicZnode.path("old"), made)
    await eventually(lambda: cluster.state("old"))
    await ask_for_deletion(cluster, controller, "old")
    cluster.brokers[1].carried = [0]
    assert isinstance(await renaming, Renamed)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path("old"))
    assert await cluster.exists(TopicZnode.path("new"))
