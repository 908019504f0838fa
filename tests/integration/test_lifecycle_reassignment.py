"""Partitions move between real brokers, with their records."""

from __future__ import annotations

import asyncio
import json

from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

T0 = TopicPartition("t", 0)


async def until_moved(cluster: LocalCluster, replicas: list[int], partition: int = 0) -> None:
    await cluster.until(
        lambda: all(
            h.replicas(node, "t", partition) == replicas
            and h.isr(node, "t", partition) == set(replicas)
            for node in cluster.nodes.values()
        ),
        f"t-{partition} is on {replicas} everywhere",
        timeout_s=20,
    )


async def test_records_move_with_the_partition(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1], [1, 0])
    await h.produce(cluster, "t", range(500))
    assert await h.reassign(cluster, "t", {0: [2, 1]}) == {0: 0}
    await until_moved(cluster, [2, 1])
    log = cluster.nodes[2].services.replica_manager.partitions.log(T0)
    assert log is not None and log.end_offset == 500
    assert h.leader(cluster.nodes[2], "t") == 2
    await cluster.until(lambda: not h.folder(cluster, 0, "t").exists(), "broker 0 lost its log")
    await h.produce(cluster, "t", range(500, 600))
    follower = cluster.nodes[1].services.replica_manager.partitions.log(T0)
    assert follower is not None
    await cluster.until(lambda: follower.end_offset == 600, "the other replica follows")
    # The other partition stayed.
    assert h.replicas(cluster.nodes[0], "t", 1) == [1, 0]


async def test_a_move_waits_for_its_broker_and_survives_the_controller(
    cluster: LocalCluster,
) -> None:
    controller = cluster.controller.broker_id
    target, source = [b for b in (0, 1, 2) if b != controller]
    await h.create(cluster, "t", [source])
    await h.produce(cluster, "t", range(200))
    # The target must be alive when the move is asked for; it goes at once.
    target_node = cluster.nodes[target]
    target_node.services.replica_manager.fetchers.add = lambda partitions: None  # type: ignore[method-assign]
    assert await h.reassign(cluster, "t", {0: [target]}) == {0: 0}
    listed = await h.ask(cluster.controller, m.ListPartitionReassignmentsRequest(topics=None), 0)
    (topic,) = listed.topics
    assert [(p.replicas, p.adding_replicas, p.removing_replicas) for p in topic.partitions] == [
        ([target, source], [target], [source])
    ]
    await cluster.stop(target, controlled=False)
    await cluster.stop(controller, controlled=False)
    await cluster.until(
        lambda: any(node.controller.is_active for node in cluster.nodes.values()), "a controller"
    )
    await cluster.start(target)
    await until_moved(cluster, [target])
    log = cluster.nodes[target].services.replica_manager.partitions.log(T0)
    assert log is not None and log.end_offset == 200


async def test_a_cancelled_move_leaves_nothing_behind(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1])
    await h.produce(cluster, "t", range(50))
    manager = cluster.nodes[2].services.replica_manager
    manager.fetchers.add = lambda partitions: None  # type: ignore[method-assign]
    await h.reassign(cluster, "t", {0: [2, 1]})
    await cluster.until(lambda: h.folder(cluster, 2, "t").exists(), "broker 2 has a log")
    assert await h.reassign(cluster, "t", {0: None}) == {0: 0}
    await cluster.until(lambda: not h.folder(cluster, 2, "t").exists(), "broker 2 has none")
    await until_moved(cluster, [1, 0])
    assert await h.reassign(cluster, "t", {0: None}) == {0: 85}


async def test_the_admin_node_moves_partitions_too(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0], [0])
    await h.produce(cluster, "t", range(50))
    wish = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 2]},
            {"topic": "t", "partition": 1, "replicas": [2]},
        ],
    }
    store = cluster.nodes[0].services.store
    await store.create("/admin/reassign_partitions", json.dumps(wish).encode())
    await until_moved(cluster, [1, 2])
    await until_moved(cluster, [2], 1)

    async def node_gone() -> bool:
        return not await h.exists(cluster, "/admin/reassign_partitions")

    await h.until_true(node_gone, "the admin node is removed")
    await h.produce(cluster, "t", range(50, 60))


async def test_many_partitions_move_while_records_come(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", *[[0, 1]] * 8)
    for partition in range(8):
        await h.produce(cluster, "t", range(20), partition)
    asked = h.reassign(cluster, "t", {p: [2, p % 2] for p in range(8)})
    codes, _ = await asyncio.gather(asked, h.produce(cluster, "t", range(20, 220), 3))
    assert set(codes.values()) == {0}
    for partition in range(8):
        await until_moved(cluster, [2, partition % 2], partition)
    log = cluster.nodes[2].services.replica_manager.partitions.log(TopicPartition("t", 3))
    assert log is not None and log.end_offset == 220
