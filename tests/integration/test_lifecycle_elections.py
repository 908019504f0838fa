"""Leaders are handed back, by request, by an old tool's node and by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

PREFERRED, UNCLEAN = 0, 1


async def elect(
    cluster: LocalCluster, topic: str | None, kind: int, *partitions: int, version: int = 2
) -> dict[tuple[str, int], int]:
    """Error codes; a topic of None asks for all partitions of the cluster."""
    named = [m.ElectLeadersRequest.TopicPartitions(topic=topic or "", partitions=list(partitions))]
    request = m.ElectLeadersRequest(
        election_type=kind, topic_partitions=None if topic is None else named, timeout_ms=10_000
    )
    answer = await h.ask(cluster.controller, request, version)
    return {
        (result.topic, partition.partition_id): partition.error_code
        for result in answer.replica_election_results
        for partition in result.partition_result
    }


async def allow_unclean_elections(cluster: LocalCluster, topic: str) -> None:
    request = m.IncrementalAlterConfigsRequest
    resource = request.AlterConfigsResource(
        resource_type=2,
        resource_name=topic,
        configs=[
            request.AlterableConfig(
                name="unclean.leader.election.enable", config_operation=0, value="true"
            )
        ],
    )
    answer = await h.ask(cluster.controller, request(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


async def move_leaders_off(cluster: LocalCluster, broker_id: int) -> None:
    """A restart of the broker: it comes back into the ISR but does not lead."""
    await cluster.stop(broker_id)
    await cluster.start(broker_id)
    await cluster.until_all_know("t", 2, 2)


async def test_preferred_leaders_are_elected(cluster: LocalCluster) -> None:
    follower = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    other = next(b for b in cluster.nodes if b != follower)
    await h.create(cluster, "t", [follower, other], [other, follower])
    await move_leaders_off(cluster, follower)
    node = cluster.controller
    assert h.leader(node, "t", 0) == other
    assert await elect(cluster, "t", PREFERRED, 0, 1, 7) == {
        ("t", 0): 0,
        ("t", 1): 84,
        ("t", 7): 3,
    }
    # The answer came when this broker saw the leader.
    assert h.leader(node, "t", 0) == follower
    assert await elect(cluster, None, PREFERRED) == {}, "whoever needs none is left out"
    assert await elect(cluster, "ghost", PREFERRED, 0, version=0) == {("ghost", 0): 3}
    standby = next(n for n in cluster.nodes.values() if not n.controller.is_active)
    refused = await h.ask(
        standby,
        m.ElectLeadersRequest(
            topic_partitions=[m.ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])]
        ),
        2,
    )
    assert refused.replica_election_results[0].partition_result[0].error_code == 41


async def test_all_partitions_at_once(cluster: LocalCluster) -> None:
    follower = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    other = next(b for b in cluster.nodes if b != follower)
    await h.create(cluster, "t", [follower, other], [follower, other])
    await move_leaders_off(cluster, follower)
    assert await elect(cluster, None, PREFERRED) == {("t", 0): 0, ("t", 1): 0}


async def test_unclean_only_where_nobody_lives(cluster: LocalCluster) -> None:
    controller = cluster.controller.broker_id
    first, second = [b for b in cluster.nodes if b != controller]
    await h.create(cluster, "t", [first, second])
    await h.create(cluster, "by-config", [first, second])
    await h.produce(cluster, "t", range(10))
    assert await elect(cluster, "t", UNCLEAN, 0) == {("t", 0): 84}
    await cluster.stop(second, controlled=False)
    await cluster.until(lambda: h.isr(cluster.controller, "t") == {first}, "the ISR shrinks")
    await h.produce(cluster, "t", range(10, 20))
    await cluster.stop(first, controlled=False)
    await cluster.until(lambda: h.leader(cluster.controller, "t") == -1, "nobody leads")
    assert await elect(cluster, "t", UNCLEAN, 0) == {("t", 0): 83}
    assert await elect(cluster, "t", PREFERRED, 0) == {("t", 0): 80}
    await cluster.start(second)
    await cluster.until(lambda: second in cluster.nodes, "the stale replica is back")
    assert h.leader(cluster.controller, "t") == -1, "a stale replica does not lead by itself"
    await cluster.until(
        lambda: second in cluster.controller.services.metadata_cache._brokers, "the broker is seen"
    )
    assert await elect(cluster, "t", UNCLEAN, 0) == {("t", 0): 0}
    assert h.leader(cluster.controller, "t") == second
    assert h.isr(cluster.controller, "t") == {second}
    assert h.leader(cluster.controller, "by-config") == -1
    await allow_unclean_elections(cluster, "by-config")
    await cluster.until(
        lambda: h.leader(cluster.controller, "by-config") == second,
        "elected by a controller that hosts nothing of the topic",
    )


async def test_the_admin_node_of_old_tools(cluster: LocalCluster) -> None:
    follower = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    other = next(b for b in cluster.nodes if b != follower)
    await h.create(cluster, "t", [follower, other], [other, follower])
    await move_leaders_off(cluster, follower)
    wish: dict[str, Any] = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    store = cluster.controller.services.store
    path = "/admin/preferred_replica_election"
    await store.create(path, json.dumps(wish).encode())
    await cluster.until(
        lambda: all(h.leader(n, "t") == follower for n in cluster.nodes.values()), "handed back"
    )

    async def node_gone() -> bool:
        return not await h.exists(cluster, path)

    await h.until_true(node_gone, "the admin node is removed")


async def test_leaders_go_back_by_themselves(tmp_path: Path) -> None:
    """The first look is five seconds after the controller took office, then every interval."""
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    settings = {"leader_imbalance_check_interval_seconds": "1"}
    try:
        for broker_id in (0, 1):
            await cluster.start(broker_id, **settings)
        await cluster.until(
            lambda: len(cluster.controller.services.metadata_cache.alive_brokers()) == 2,
            "two brokers",
        )
        await h.create(cluster, "t", [1, 0], [0, 1])
        await cluster.stop(1)
        await cluster.start(1, **settings)
        await cluster.until_all_know("t", 2, 2)
        await cluster.until(
            lambda: all(h.leader(n, "t") == 1 for n in cluster.nodes.values()),
            "broker 1 leads again",
            timeout_s=12,
        )
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()
