"""The quota on mutations (KIP-599) is taken from the store while the brokers run."""

from __future__ import annotations

import asyncio
import json

from ottla.metadata.store import CreateMode
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster


async def set_rate(cluster: LocalCluster, rate: str) -> None:
    """What kafka-configs --zookeeper writes: the config, then the note."""
    store = cluster.controller.services.store
    config = json.dumps({"version": 1, "config": {"controller_mutation_rate": rate}}).encode()
    path = "/config/users/<default>"
    if await store.exists(path) is None:
        await store.create(path, config)
    else:
        await store.set(path, config)
    note = json.dumps({"version": 2, "entity_path": "users/<default>"}).encode()
    await store.create(
        "/config/changes/config_change_", note, mode=CreateMode.PERSISTENT_SEQUENTIAL
    )


async def create(cluster: LocalCluster, name: str, version: int) -> tuple[int, int]:
    """Error code and throttle time."""
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=4, replication_factor=1)
    request = m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    answer = await h.ask(cluster.controller, request, version)
    return answer.topics[0].error_code, answer.throttle_time_ms


async def test_a_client_in_debt_is_refused_or_told_to_wait(cluster: LocalCluster) -> None:
    await set_rate(cluster, "0.1")
    await cluster.until(
        lambda: all(n.services.mutation_quotas._rates for n in cluster.nodes.values()),
        "every broker knows the quota",
    )
    assert await create(cluster, "a", 7) == (0, 0)
    code, wait_ms = await create(cluster, "b", 7)
    assert code == 89 and 20_000 < wait_ms <= 30_000
    assert not await h.exists(cluster, "/brokers/topics/b")
    code, wait_ms = await create(cluster, "c", 5)
    assert code == 0 and 60_000 < wait_ms <= 70_000
    deletion = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicsRequest.DeleteTopicState(name="a")], timeout_ms=5_000
    )
    refused = await h.ask(cluster.controller, deletion, 6)
    assert refused.responses[0].error_code == 89
    await set_rate(cluster, "1000")
    for _ in range(100):
        if (await create(cluster, "b", 7))[0] == 0:
            break
        await asyncio.sleep(0.05)
    assert await h.exists(cluster, "/brokers/topics/b")


async def test_topics_made_by_use_are_never_refused(cluster: LocalCluster) -> None:
    await set_rate(cluster, "0.001")
    await cluster.until(
        lambda: all(n.services.mutation_quotas._rates for n in cluster.nodes.values()),
        "every broker knows the quota",
    )
    other = next(n for n in cluster.nodes.values() if not n.controller.is_active)
    for name in ("one", "two", "three"):
        request = m.MetadataRequest(
            topics=[m.MetadataRequest.MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=True,
        )
        await h.ask(other, request, 9)
        await cluster.until(
            lambda name=name: cluster.controller.services.metadata_cache.contains_topic(name),
            f"{name} was made",
        )
