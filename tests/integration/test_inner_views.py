"""BrokerView and ControllerView on a cluster of three: what a topic's life leaves in them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.admin.client import Admin
from ottla.client.admin.inner_views import BrokerView, ControllerView, TopicNote
from ottla.client.admin.types import NewPartitions, NewTopic, raise_first_error
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster
from tests.support.integration.secure_cluster import ADMIN, BOB, running


async def broker_view(admin: Admin, broker_id: int, since: int = 0) -> BrokerView:
    view = await admin.broker_view(broker_id, since=since)
    assert view is not None
    return view


async def controller_view(admin: Admin, **asked: Any) -> ControllerView:
    view = await admin.controller_view(**asked)
    assert view is not None
    return view


def of_topic(view: BrokerView, topic: str = "t") -> list[TopicNote]:
    return [note for note in view.notes if note.topic == topic]


def kinds(view: BrokerView, topic: str = "t") -> list[tuple[str, int]]:
    return [(note.kind, note.count) for note in of_topic(view, topic)]


def steps(view: ControllerView) -> dict[tuple[str, str], int]:
    return {(step.from_state, step.to_state): step.count for step in view.transitions}


async def test_a_topics_life_in_the_views(cluster: LocalCluster) -> None:
    controller_id = cluster.controller.broker_id
    async with Admin.connect(
        system_runtime(), cluster.bootstrap, client_id="a-student", timeout_ms=10_000
    ) as admin:
        before = await controller_view(admin, since=-1)
        assert (before.broker_id, before.events) == (controller_id, [])
        new = NewTopic("t", 3, 3, configs={"file.delete.delay.ms": "0"})
        raise_first_error(await admin.create_topics([new]))
        await cluster.until_all_know("t", 3, 3)

        at_controller = of_topic(await broker_view(admin, controller_id))
        request, znodes = at_controller[:2]
        assert (request.kind, request.api, request.client_id, request.principal, request.count) == (
            "request", "CreateTopics", "a-student", "User:ANONYMOUS", 3,
        )  # fmt: skip
        assert (znodes.kind, znodes.place) == ("znodes", "/brokers/topics/t")
        leads = 0
        for broker_id in (0, 1, 2):
            notes = {note.kind: note for note in of_topic(await broker_view(admin, broker_id))}
            assert (notes["folder-made"].count, notes["follower"].count) == (3, 2)
            assert (
                notes["folder-made"].place
                == f"broker-{broker_id}/t-{notes['leader'].partitions[0]}"
            )
            leads += notes["leader"].count
        assert leads == 3

        after = await controller_view(admin, since=before.next_since, topic="t")
        assert {event.topic for event in after.events} == {"t"}
        made = steps(after)
        assert made["NewPartition", "OnlinePartition"] == 3
        assert made["NonExistentReplica", "NewReplica"] == made["NewReplica", "OnlineReplica"] == 9
        states = {state.state: state.count for state in after.states}
        assert (states["OnlinePartition"], states["OnlineReplica"]) == (3, 9)

        raise_first_error(await admin.create_partitions({"t": NewPartitions(4)}))
        raise_first_error(await admin.delete_topics(["t"]))
        seen: list[str] = []
        while "folder-removed" not in seen:
            seen = [kind for kind, _ in kinds(await broker_view(admin, controller_id))]
            await asyncio.sleep(0.05)
        requests = [
            (note.api, note.count)
            for note in of_topic(await broker_view(admin, controller_id))
            if note.kind == "request"
        ]
        assert requests == [("CreateTopics", 3), ("CreatePartitions", 1), ("DeleteTopics", 4)]
        assert seen.index("folder-renamed") < seen.index("folder-removed")
        gone = await controller_view(admin, since=after.next_since)
        assert steps(gone)["ReplicaDeletionSuccessful", "NonExistentReplica"] == 12
        assert not any(state.count for state in gone.states)
        assert gone.illegal_transitions == 0 and gone.queue_length == 0


async def test_counters(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1], min_insync_replicas="2")
    async with Admin.connect(system_runtime(), cluster.bootstrap) as admin:
        leader, follower = await broker_view(admin, 0), await broker_view(admin, 1)
        assert (leader.leaders, leader.partitions, follower.leaders) == (1, 1, 0)

    def call() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(50):
            producer.produce("t", b"x" * 100, key=str(number).encode(), partition=0)
        assert producer.flush(10) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        assert len(consumer.consume(50, timeout=10)) == 50
        consumer.close()

    await asyncio.to_thread(call)
    async with Admin.connect(system_runtime(), cluster.bootstrap) as admin:
        leader, follower = await broker_view(admin, 0), await broker_view(admin, 1)
        assert leader.messages_in == 50 and 5_000 < leader.bytes_in < 20_000
        assert leader.bytes_out >= leader.bytes_in == leader.replication_bytes_out
        assert follower.replication_bytes_in == leader.bytes_in and follower.messages_in == 0
        # The consumer has looked for its coordinator, and so made the topic of offsets.
        assert leader.leaders >= 1
        assert leader.under_replicated == leader.max_lag == 0
        assert leader.connections >= 2 and leader.requests > 50 // 10
        again = await broker_view(admin, 0)
        assert again.requests > leader.requests and again.started_ms == leader.started_ms


async def test_a_successor_begins_anew(cluster: LocalCluster) -> None:
    async with Admin.connect(system_runtime(), cluster.bootstrap) as admin:
        first = await controller_view(admin)
        await cluster.stop(first.broker_id)
        second = await controller_view(admin)
        assert second.epoch > first.epoch and second.broker_id != first.broker_id
        others = [n for n in cluster.nodes.values() if n.broker_id != second.broker_id]
        answer = await h.ask(others[0], m.ControllerViewRequest(), 0)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER and not answer.states


async def test_only_those_who_may_describe_the_cluster(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=1) as cluster:
        for request in (m.BrokerViewRequest(), m.ControllerViewRequest()):
            refused = await cluster.ask(BOB, request, 0, 0)
            assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert refused.broker_id == -1
            assert (await cluster.ask(ADMIN, request, 0, 0)).error_code == ErrorCode.NONE
