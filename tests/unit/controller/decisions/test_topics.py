"""Topic znodes become led partitions: creation, expansion, hand-written and broken znodes."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from ottla.metadata.znodes import (
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.types import TopicPartition, format_topic_id
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster


async def test_a_new_topic_gets_leaders_states_and_requests(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    controller = await cluster.start_controller(0)
    cluster.clear()
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 0)})

    assert await cluster.state("t", 0) == LeaderAndIsr(1, 0, (1, 2), 1, 0)
    assert await cluster.state("t", 1) == LeaderAndIsr(2, 0, (2, 0), 1, 0)
    (request,) = cluster.brokers[1].of_type(m.LeaderAndIsrRequest)
    assert (request.controller_id, request.controller_epoch, request.type) == (0, 1, 0)
    assert request.broker_epoch == await cluster.broker_epoch(1)
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", b"i" * 16)
    (partition,) = topic.partition_states
    assert partition.partition_index == 0
    assert partition.is_new
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, [1, 2])
    assert (partition.partition_epoch, partition.replicas) == (0, [1, 2])
    assert [leader.broker_id for leader in request.live_leaders] == [1]
    # Broker 2 hosts both partitions: one request with both.
    (both,) = cluster.brokers[2].of_type(m.LeaderAndIsrRequest)
    assert [s.partition_index for s in both.topic_states[0].partition_states] == [0, 1]
    for broker in cluster.brokers.values():
        (metadata,) = broker.of_type(m.UpdateMetadataRequest)
        assert [b.id for b in metadata.live_brokers] == [0, 1, 2]
        assert [s.leader for s in metadata.topic_states[0].partition_states] == [1, 2]
    texts = [record.getMessage() for record in caplog.records]
    assert any(
        "New topics: [t], deleted topics: [], new partition replica assignment"
        " [t-0 -> [1, 2], t-1 -> [2, 0]]" in text
        for text in texts
    )
    assert any("New partition creation callback for t-0,t-1" in text for text in texts)
    assert any(
        "Changed partition t-0 from NewPartition to OnlinePartition with state"
        " LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, 2), zkVersion=0)" in text
        for text in texts
    )
    moves = [
        (e.partition, e.from_state, e.to_state)
        for e in controller.journal.recent()
        if e.kind == "partition"
    ]
    assert moves == [
        (0, "NonExistentPartition", "NewPartition"),
        (1, "NonExistentPartition", "NewPartition"),
        (0, "NewPartition", "OnlinePartition"),
        (1, "NewPartition", "OnlinePartition"),
    ]


async def test_every_step_of_a_creation_says_who_leads_and_what_was_answered(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    cluster.brokers[2].lost_partitions = {1}
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 0)})
    events = [e.to_json() for e in controller.journal.recent() if e.topic == "t"]

    def only(kind: str, **wanted: Any) -> list[dict[str, Any]]:
        found = [e for e in events if e["kind"] == kind]
        return [e for e in found if all(e.get(key) == value for key, value in wanted.items())]

    (new,) = only("partition", partition=0, to="NewPartition")
    assert new["replicas"] == (1, 2) and "leader" not in new
    (online,) = only("partition", partition=0, to="OnlinePartition")
    assert {key: online[key] for key in ("leader", "isr", "replicas", "leader_epoch")} == {
        "leader": 1,
        "isr": (1, 2),
        "replicas": (1, 2),
        "leader_epoch": 0,
    }
    (replica,) = only("replica", partition=1, broker=0, to="OnlineReplica")
    assert (replica["leader"], replica["isr"]) == (2, (2, 0))
    asked = [(e["broker"], e["cause"]) for e in only("request", to="LeaderAndIsr")]
    assert asked[:3] == [
        (0, "follow partition 1"),
        (1, "lead partition 0"),
        (2, "follow partition 0; lead partition 1"),
    ]
    assert {e["cause"] for e in only("request", to="UpdateMetadata")} == {
        "know partition 1",
        "know partitions 0,1",
    }
    (good,) = only("answer", to="LeaderAndIsr", broker=1)
    assert (good["event"], good["error"]) == ("LeaderAndIsrResponseReceived", "NONE")
    (bad, *_) = only("answer", to="LeaderAndIsr", broker=2)
    assert bad["error"] == "KAFKA_STORAGE_ERROR"
    assert bad["cause"] == "KAFKA_STORAGE_ERROR for partition 1"
    assert {e["broker"] for e in only("answer", to="UpdateMetadata", error="NONE")} == {0, 1, 2}


async def test_creation_with_dead_brokers_leads_from_the_live_ones(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (9, 2, 1), 1: (8, 9)})
    assert await cluster.state("t", 0) == LeaderAndIsr(2, 0, (2, 1), 1, 0)
    assert await cluster.state("t", 1) is None
    metadata = cluster.brokers[0].of_type(m.UpdateMetadataRequest)[-1]
    (partition,) = metadata.topic_states[0].partition_states
    assert partition.offline_replicas == [9]
    # The partition without a live replica stays new and is led once a broker of it appears.
    await cluster.start_broker(9)
    await cluster.settle()
    assert await cluster.state("t", 1) == LeaderAndIsr(9, 0, (9,), 1, 0)


async def test_hand_written_znode_with_unequal_replicas_and_without_id(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    written = b'{"version":1,"partitions":{"2":[0,1],"1":[1],"3":[1,0],"0":[0,1]}}'
    await cluster.admin.create("/brokers/topics/topic-test7", written)
    await cluster.settle()
    leaders = [await cluster.state("topic-test7", p) for p in range(4)]
    assert [(s.leader, s.isr) for s in leaders if s] == [
        (0, (0, 1)),
        (1, (1,)),
        (0, (0, 1)),
        (1, (1, 0)),
    ]
    stored = await cluster.json("/brokers/topics/topic-test7")
    assert stored["version"] == 3
    assert stored["partitions"] == {"0": [0, 1], "1": [1], "2": [0, 1], "3": [1, 0]}
    request = cluster.brokers[1].of_type(m.LeaderAndIsrRequest)[-1]
    assert format_topic_id(request.topic_states[0].topic_id) == stored["topic_id"]
    assert len(stored["topic_id"]) == 22


async def test_garbage_is_no_topic_until_it_is_repaired(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.admin.create("/brokers/topics/broken", b"{not json")
    await cluster.settle()
    assert controller.is_active
    assert (await cluster.admin.get("/brokers/topics/broken"))[0] == b"{not json"
    await cluster.admin.set("/brokers/topics/broken", b'{"version":1,"partitions":{"0":[1]}}')
    await cluster.settle()
    state = await cluster.state("broken")
    assert state is not None and state.leader == 1
    assert "topic_id" in await cluster.json("/brokers/topics/broken")


async def test_expansion_creates_only_the_new_partitions(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    cluster.clear()
    await cluster.set_topic("t", {0: (0, 1), 1: (1, 2), 2: (2, 0)})
    assert await cluster.state("t", 1) == LeaderAndIsr(1, 0, (1, 2), 1, 0)
    assert await cluster.state("t", 2) == LeaderAndIsr(2, 0, (2, 0), 1, 0)
    told = {
        state.partition_index
        for broker in cluster.brokers.values()
        for request in broker.of_type(m.LeaderAndIsrRequest)
        for state in request.topic_states[0].partition_states
    }
    assert told == {1, 2}


async def test_a_state_znode_written_by_hand_keeps_its_partition_new(
    cluster: ControlledCluster,
) -> None:
    """ADR 19: such a partition is not created until a controller reads the node."""
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    tp = TopicPartition("t", 1)
    path = TopicPartitionStateZnode.path(tp)
    await cluster.create_path(path)
    by_hand = LeaderAndIsr(2, 5, (2,), 0)
    await cluster.admin.set(path, TopicPartitionStateZnode.encode(by_hand))
    cluster.clear()
    await cluster.set_topic("t", {0: (0, 1), 1: (2, 0)})
    assert [r for b in cluster.brokers.values() for r in b.of_type(m.LeaderAndIsrRequest)] == []
    await cluster.kill_controller(first)
    await cluster.start_controller(1)
    (request,) = cluster.brokers[2].of_type(m.LeaderAndIsrRequest)
    assert request.topic_states[0].partition_states[0].leader_epoch == 5


async def test_losing_the_topic_id_in_the_znode_does_not_change_the_topic(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await cluster.admin.set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0,1],"1":[1]}}')
    await cluster.settle()
    decoded = TopicZnode.decode((await cluster.admin.get("/brokers/topics/t"))[0])
    assert decoded.topic_id == b"i" * 16
    assert await cluster.state("t", 1) is not None


async def test_a_vanished_topic_is_forgotten(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.admin.create("/brokers/topics/t", b"")
    await cluster.settle()
    await cluster.admin.delete("/brokers/topics/t")
    await cluster.settle()
    await cluster.create_topic("t", {0: (1,)})
    state = await cluster.state("t")
    assert state is not None and state.leader == 1


async def test_a_znode_that_is_being_reassigned_breaks_nothing(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.admin.create(
        "/brokers/topics/t",
        b'{"version":3,"partitions":{"0":[2,0,1]},"adding_replicas":{"0":[2]},'
        b'"removing_replicas":{"0":[1]}}',
    )
    await cluster.settle()
    assert controller.is_active
    request = cluster.brokers[2].of_type(m.LeaderAndIsrRequest)[-1]
    (partition,) = request.topic_states[0].partition_states
    assert (partition.adding_replicas, partition.removing_replicas) == ([2], [1])


async def test_many_topics_are_created_in_few_requests(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    cluster.clear()
    started = time.perf_counter()
    await asyncio.gather(
        *(
            cluster.admin.create(
                f"/brokers/topics/t{n}",
                TopicZnode.encode(
                    TopicZnode.decode(
                        b'{"partitions":{%s}}'
                        % b",".join(b'"%d":[%d,%d]' % (p, p % 3, (p + 1) % 3) for p in range(10))
                    ).partitions,
                    n.to_bytes(16, "big"),
                ),
            )
            for n in range(100)
        )
    )
    await cluster.settle()
    elapsed = time.perf_counter() - started
    assert await cluster.state("t99", 9) is not None
    assert len(cluster.brokers[0].of_type(m.LeaderAndIsrRequest)) <= 4
    assert elapsed < 5


@pytest.mark.parametrize("reigns", [True, False], ids=["seen by a controller", "before one reigns"])
async def test_a_copied_znode_does_not_get_the_other_topic_s_id(
    cluster: ControlledCluster, caplog: pytest.LogCaptureFixture, reigns: bool
) -> None:
    """By its id brokers would take the other topic's logs for those of a renamed one."""
    if reigns:
        await cluster.start_controller(0)
    await cluster.create_topic("the-first", {0: (1, 2)}, b"f" * 16)
    await cluster.create_topic("a-copy", {0: (1, 2)}, b"f" * 16)
    if not reigns:
        await cluster.start_controller(0)
        await cluster.settle()
    ids = {
        name: TopicZnode.decode((await cluster.admin.get(TopicZnode.path(name)))[0]).topic_id
        for name in ("the-first", "a-copy")
    }
    assert ids["the-first"] == b"f" * 16 and ids["a-copy"] not in (None, b"f" * 16)
    told = {
        topic.topic_name: topic.topic_id
        for request in cluster.brokers[1].of_type(m.LeaderAndIsrRequest)
        for topic in request.topic_states
    }
    assert told == ids
    assert "Topic a-copy has the topic id of another topic" in caplog.text
