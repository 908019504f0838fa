"""Names go from topic to topic while a broker is away. It has the only records of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.client.admin.client import Admin
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster, running_brokers

AWAY = 1


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Two brokers, of which 0 is the controller."""
    async with running_brokers(LocalCluster(tmp_path), 1) as cluster:
        await cluster.start(AWAY)
        await cluster.until(
            lambda: len(cluster.controller.services.metadata_cache.alive_brokers()) == 2,
            "both are there",
        )
        yield cluster


async def make(cluster: LocalCluster, records: dict[str, int], **config: str) -> None:
    for topic, count in records.items():
        await h.create(cluster, topic, [AWAY], **config)
        await h.produce(cluster, topic, range(count))


async def ends(cluster: LocalCluster, *topics: str) -> dict[str, int | None]:
    """Of the broker that came back, once it leads them all."""
    node = cluster.nodes[AWAY]

    def leads() -> bool:
        found = [node.services.replica_manager.partitions.get(TopicPartition(t, 0)) for t in topics]
        return all(partition is not None and partition.is_leader for partition in found)

    await cluster.until(leads, "it leads all of them")
    logs = {topic: node.parts.log_manager.get(TopicPartition(topic, 0)) for topic in topics}
    return {topic: None if log is None else log.end_offset for topic, log in logs.items()}


async def rename(cluster: LocalCluster, *pairs: tuple[str, str]) -> None:
    async with Admin.connect(system_runtime(), cluster.bootstrap) as admin:
        for topic, name in pairs:
            assert await admin.rename_topic(topic, name) is not None


async def test_in_a_ring(pair: LocalCluster) -> None:
    await make(pair, {"a": 3, "b": 4, "c": 5, "d": 6})
    await pair.stop(AWAY)
    await rename(pair, ("a", "x"), ("b", "a"), ("c", "b"), ("x", "c"), ("d", "dd"), ("dd", "d"))
    await pair.start(AWAY)
    assert await ends(pair, "a", "b", "c", "d") == {"a": 4, "b": 5, "c": 3, "d": 6}
    folders = [path.name for path in (pair.folder / f"broker-{AWAY}").iterdir() if path.is_dir()]
    assert sorted(folders) == ["a-0", "b-0", "c-0", "d-0"]


@pytest.mark.parametrize("retention_ms", ["0", "86400000"])
async def test_to_that_of_a_topic_which_was_deleted(pair: LocalCluster, retention_ms: str) -> None:
    await make(pair, {"a": 3, "b": 4, "c": 5}, ottla_delete_retention_ms=retention_ms)
    await pair.stop(AWAY)
    await h.delete(pair, "b")

    async def is_gone() -> bool:
        return not pair.controller.services.metadata_cache.contains_topic("b")

    await h.until_true(is_gone, "b is gone")
    await rename(pair, ("a", "b"), ("c", "a"))
    await pair.start(AWAY)
    assert await ends(pair, "a", "b") == {"a": 5, "b": 3}
