"""What goes into the trash, what does not, and what cannot be deleted at all."""

from __future__ import annotations

from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.znodes import ConfigZnode, DeleteTopicZnode, TopicZnode
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID = b"i" * 16


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
