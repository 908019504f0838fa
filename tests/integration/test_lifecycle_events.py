"""What the controller does can be read from the topic `__ottla_lifecycle`."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.types import format_topic_id
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

TOPIC = "__ottla_lifecycle"


async def read_events(cluster: LocalCluster, enough: Any, timeout_s: float = 15) -> list[Any]:
    """All events from the beginning on, until there are `enough`."""

    def call() -> list[Any]:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "events"})
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        found: list[Any] = []
        try:
            deadline = time.monotonic() + timeout_s
            while time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    found.append(json.loads(message.value()))
                if enough(found):
                    return found
            raise AssertionError(f"not within {timeout_s} s: {found[-5:]}")
        finally:
            consumer.close()

    return await asyncio.to_thread(call)


def changes(events: list[Any], kind: str, topic: str) -> list[tuple[Any, Any]]:
    return [
        (event.get("from"), event.get("to"))
        for event in events
        if event["kind"] == kind and event.get("topic") == topic
    ]


async def test_a_topics_life_across_controllers(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    try:
        for broker_id in (0, 1, 2):
            # A leader waits this long for a follower that was there a moment ago, as in Kafka.
            await cluster.start(
                broker_id, ottla_lifecycle_topic_enable="true", replica_lag_time_max_ms="1500"
            )
        await cluster.until(
            lambda: all(
                len(n.services.metadata_cache.alive_brokers()) == 3 for n in cluster.nodes.values()
            ),
            "three brokers",
        )
        assert "lifecycle" in {task.get_name() for task in asyncio.all_tasks()}
        await h.create(cluster, "t", [0, 1])
        topic_id = format_topic_id(cluster.nodes[0].services.metadata_cache.topic_id("t"))
        events = await read_events(cluster, lambda found: len(changes(found, "replica", "t")) >= 4)
        assert changes(events, "partition", "t") == [
            ("NonExistentPartition", "NewPartition"),
            ("NewPartition", "OnlinePartition"),
        ]
        first = next(e for e in events if e.get("topic") == "t" and e["kind"] == "partition")
        assert first["event"] == "TopicChange"
        assert (first["partition"], first["topic_id"], first["controller_epoch"]) == (
            0,
            topic_id,
            1,
        )
        assert not [e for e in events if e.get("topic") == TOPIC]
        # Its own life causes no events for ever: by the time another topic is told of, none of
        # them is about itself.
        await h.create(cluster, "u", [0, 1])
        events = await read_events(cluster, lambda found: len(changes(found, "replica", "u")) >= 4)
        assert TOPIC not in {e.get("topic") for e in events}
        # The next controller goes on, whoever leads the topic.
        await cluster.stop(cluster.controller.broker_id)
        await h.until_controller_known(cluster)
        await h.delete(cluster, "t")
        events = await read_events(
            cluster,
            lambda found: any(e.get("to") == "Deleted" and e["topic"] == "t" for e in found),
        )
        assert {e["controller_epoch"] for e in events} == {1, 2}
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()


async def test_off_unless_asked_for(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0])
    assert "lifecycle" not in {task.get_name() for task in asyncio.all_tasks()}, "nobody publishes"
    assert not cluster.controller.services.metadata_cache.contains_topic(TOPIC)
    recent = cluster.controller.controller.journal.recent()
    assert [e for e in recent if e.topic == "t"], "the ring has them all the same"
