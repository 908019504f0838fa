"""What one batch of requests tells brokers."""

from __future__ import annotations

from typing import Any

from ottla.controller.requests import RequestBatch
from ottla.controller.steps import ControlRequest
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.types import Endpoint, TopicPartition
from tests.support.controller.contexts import empty_context


def sent(batch: RequestBatch) -> list[ControlRequest]:
    return [request for step in batch.send() for request in step.requests]  # type: ignore[union-attr]


def states(request: ControlRequest) -> dict[str, list[Any]]:
    message: Any = request.message
    return {topic.topic_name: topic.partition_states for topic in message.topic_states}


def test_topics_of_one_form_are_told_with_one_object() -> None:
    """Also what differs in a detail is told as it is: who is down, who is new, what goes."""
    ctx = empty_context()
    ctx.add_broker(BrokerInfo(1, (Endpoint("PLAINTEXT", "localhost", 9092),)), 7)
    led = LeaderAndIsr(1, 3, (1,), 5, 4)
    assignments = {"a": (1,), "b": (1,), "c": (1, 2), "gone": (1,), "later": (1,)}
    batch = RequestBatch(ctx)
    for topic, replicas in assignments.items():
        tp = TopicPartition(topic, 0)
        ctx.set_assignment(tp, ReplicaAssignment(replicas))
        ctx.leadership[tp] = led._replace(zk_version=9) if topic == "later" else led
        batch.add_leader_and_isr([1], tp, is_new=topic == "b")
    ctx.topics_to_delete.add("gone")
    orders, metadata = map(states, sent(batch))
    assert {topic: (one.is_new, one.replicas) for topic, (one,) in orders.items()} == {
        topic: (topic == "b", list(replicas)) for topic, replicas in assignments.items()
    }
    assert orders["a"][0] is orders["gone"][0] and metadata["a"][0] is metadata["b"][0]
    assert {topic: one.offline_replicas for topic, (one,) in metadata.items()} == {
        topic: [2] if topic == "c" else [] for topic in assignments
    }
    assert {topic: one.leader for topic, (one,) in metadata.items()} == {
        topic: -2 if topic == "gone" else 1 for topic in assignments
    }
    assert [one.partition_epoch for (one,) in orders.values()] == [4, 4, 4, 4, 9]
    assert [one.zk_version for (one,) in metadata.values()] == [4, 4, 4, 0, 9]


def test_a_failed_folder_is_a_matter_of_single_partitions() -> None:
    ctx = empty_context()
    ctx.add_broker(BrokerInfo(1, (Endpoint("PLAINTEXT", "localhost", 9092),)), 7)
    partitions = [TopicPartition(topic, 0) for topic in ("well", "failed")]
    for tp in partitions:
        ctx.set_assignment(tp, ReplicaAssignment((1,)))
        ctx.leadership[tp] = LeaderAndIsr(1, 3, (1,), 5, 4)
    ctx.offline_dir_partitions[1] = {partitions[1]}
    batch = RequestBatch(ctx)
    batch.add_update_metadata([1], partitions)
    (metadata,) = map(states, sent(batch))
    assert metadata["well"][0].offline_replicas == []
    assert metadata["failed"][0].offline_replicas == [1]
