"""Topics end while a broker is away, and log folders by name and place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster


async def znodes_gone(cluster: LocalCluster, topic: str) -> None:
    async def gone() -> bool:
        paths = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
        return not any([await h.exists(cluster, f"{path}/{topic}") for path in paths])

    await h.until_true(gone, f"the znodes of {topic} are gone")


async def test_a_topic_goes_while_a_broker_is_down(cluster: LocalCluster) -> None:
    away = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    staying = [b for b in cluster.nodes if b != away]
    await h.create(cluster, "t", [away, *staying])
    await h.create(cluster, "kept", [away, *staying])
    await h.produce(cluster, "t", range(100))
    await h.produce(cluster, "kept", range(10))
    await cluster.stop(away)
    await h.delete(cluster, "t")
    await znodes_gone(cluster, "t")
    assert not any(h.folder(cluster, b, "t").exists() for b in staying)
    assert h.folder(cluster, away, "t").exists()
    # The name is free. The new topic has another id and other records.
    await h.create(cluster, "t", [*staying, away])
    await h.produce(cluster, "t", range(7))
    node = await cluster.start(away)
    await cluster.until_all_know("t", 1, 3)
    log = node.services.replica_manager.partitions.log(TopicPartition("t", 0))
    assert log is not None and log.end_offset == 7
    assert log.topic_id == node.services.metadata_cache.topic_id("t")
    kept = node.services.replica_manager.partitions.log(TopicPartition("kept", 0))
    assert kept is not None and kept.end_offset == 10


async def test_a_broker_that_returns_deletes_what_is_gone(cluster: LocalCluster) -> None:
    away = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    await h.create(cluster, "t", [away])
    await h.produce(cluster, "t", range(10))
    await cluster.stop(away)
    await h.delete(cluster, "t")
    await znodes_gone(cluster, "t")
    assert h.folder(cluster, away, "t").exists()
    await cluster.start(away)
    assert not h.folder(cluster, away, "t").exists()
    left = [path.name for path in h.folder(cluster, away, "t").parent.iterdir()]
    assert [name for name in left if name.startswith("t-0.") and name.endswith("-delete")]


async def test_a_topic_goes_while_a_session_is_lost(cluster: LocalCluster) -> None:
    """The broker lives, but the cluster takes it for dead for a while."""
    node = next(n for n in cluster.nodes.values() if not n.controller.is_active)
    other = cluster.controller.broker_id
    await h.create(cluster, "t", [node.broker_id, other])
    store: Any = node.services.store
    establish, old_epoch = store._session._establish, node.services.orders.epochs.broker_epoch

    async def keep_away(*_args: object) -> None:
        return None

    store._session._establish = keep_away
    session = cluster.store.engine.sessions.get(store.session_id)
    cluster.store.engine.expire_session(session)
    await cluster.until(
        lambda: cluster.controller.services.metadata_cache.broker(node.broker_id) is None,
        "the broker counts as dead",
    )
    await h.delete(cluster, "t")
    await znodes_gone(cluster, "t")
    store._session._establish = establish
    await cluster.until(
        lambda: node.services.orders.epochs.broker_epoch > old_epoch, "registered again"
    )
    await cluster.until(
        lambda: not h.folder(cluster, node.broker_id, "t").exists(), "the stale log is gone"
    )
    assert node.services.replica_manager.partitions.get(TopicPartition("t", 0)) is None


async def test_folders_are_described_and_chosen(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    first, second = tmp_path / "one", tmp_path / "two"
    try:
        node = await cluster.start(0, log_dirs=f"{first},{second}")
        alter = m.AlterReplicaLogDirsRequest
        wish = alter(
            dirs=[
                alter.AlterReplicaLogDir(
                    path=str(second),
                    topics=[alter.AlterReplicaLogDirTopic(name="t", partitions=[0, 1])],
                ),
                alter.AlterReplicaLogDir(
                    path=str(tmp_path / "elsewhere"),
                    topics=[alter.AlterReplicaLogDirTopic(name="t", partitions=[2])],
                ),
            ]
        )
        answer = await h.ask(node, wish, 2)
        codes = {p.partition_index: p.error_code for t in answer.results for p in t.partitions}
        assert codes == {0: 9, 1: 9, 2: 57}
        await h.create(cluster, "t", [0], [0], [0])
        await h.produce(cluster, "t", range(10))
        assert {p.name for p in second.iterdir() if p.is_dir()} == {"t-0", "t-1"}
        for version in range(5):
            described = await h.ask(node, m.DescribeLogDirsRequest(topics=None), version)
            found = {
                (result.log_dir, topic.name, p.partition_index): p.partition_size
                for result in described.results
                for topic in result.topics
                for p in topic.partitions
            }
            assert found.keys() == {
                (str(second), "t", 0),
                (str(second), "t", 1),
                (str(first), "t", 2),
            }
            assert found[str(second), "t", 0] > 0 == found[str(first), "t", 2]
        answer = await h.ask(node, wish, 1)
        codes = {p.partition_index: p.error_code for t in answer.results for p in t.partitions}
        assert codes == {0: 0, 1: 0, 2: 57}
    finally:
        for started in cluster.nodes.values():
            await started.stop(controlled=False)
        await cluster.store.stop()
