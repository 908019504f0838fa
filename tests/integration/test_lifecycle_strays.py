"""A topic that is gone from the store without a deletion keeps its records (ADR 28)."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.store import MetadataStore
from ottla.metadata.znodes import TopicZnode
from ottla.process.node import Node
from ottla.storage import checkpoints
from ottla.storage.log.log import Log
from ottla.storage.log.small_logs import NOTES
from ottla.storage.manager.shared_ids import FILE_NAME
from ottla.types import TopicPartition
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

T0 = TopicPartition("t", 0)


async def remove_tree(store: MetadataStore, path: str) -> None:
    for name in await store.children(path):
        await remove_tree(store, f"{path}/{name}")
    await store.delete(path)


async def vanish(cluster: LocalCluster, topic: str) -> bytes:
    """The znode and all below it go, as by `deleteall` in ZooKeeper's shell; what it said."""
    store = cluster.controller.services.store
    data, _ = await store.get(TopicZnode.path(topic))
    await remove_tree(store, TopicZnode.path(topic))
    assert data is not None
    return data


async def restart_all(cluster: LocalCluster, *, controlled: bool = False) -> None:
    ids = sorted(cluster.nodes)
    for broker_id in ids:
        await cluster.stop(broker_id, controlled=controlled)
    await asyncio.gather(*(cluster.start(broker_id) for broker_id in ids))


async def fail_over(cluster: LocalCluster) -> None:
    node = cluster.controller
    epoch = node.controller.epoch
    session = cluster.store.engine.sessions.get(node.services.store.session_id)
    cluster.store.engine.expire_session(session)
    await cluster.until(
        lambda: any(
            n.controller.is_active and n.controller.epoch > epoch for n in cluster.nodes.values()
        ),
        "a new controller",
    )
    await h.until_controller_known(cluster)


def log_of(node: Node, tp: TopicPartition = T0) -> Log | None:
    return node.services.replica_manager.log_manager.get(tp)


def ends(cluster: LocalCluster, tp: TopicPartition = T0) -> list[int | None]:
    logs = [log_of(node, tp) for _, node in sorted(cluster.nodes.items())]
    return [None if log is None else log.end_offset for log in logs]


def set_aside(cluster: LocalCluster, broker_id: int) -> list[Path]:
    return sorted((cluster.folder / f"broker-{broker_id}").glob("t-*-stray"))


async def ottla(cluster: LocalCluster, command: str, *arguments: str) -> str:
    words = [sys.executable, "-m", "ottla", command, "--bootstrap-server", cluster.bootstrap]
    process = await asyncio.create_subprocess_exec(
        *words, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def ended(cluster: LocalCluster) -> dict[str, tuple[int, ...]]:
    store = cluster.controller.services.store
    found = {}
    for name in await store.children(EndedTopicZnode.parent()):
        entry = EndedTopicZnode.decode((await store.get(f"{EndedTopicZnode.parent()}/{name}"))[0])
        assert entry is not None
        found[entry.topic] = entry.brokers
    return found


async def test_a_znode_removed_by_hand_and_written_again(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await h.create(cluster, "t", [0, 1, 2], retention_ms="1")
    await h.produce(cluster, "t", range(100))
    data = await vanish(cluster, "t")
    await remove_tree(cluster.controller.services.store, "/config/topics/t")
    await fail_over(cluster)
    assert ends(cluster) == [100, 100, 100]
    with caplog.at_level(logging.WARNING):
        await restart_all(cluster)
    assert ends(cluster) == [100, 100, 100]
    told = [r.message for r in caplog.records if "ottla log-dirs --strays" in r.message]
    assert len(told) == 3 and "t-0" in told[0]
    # What nobody owns is not cut by anybody's retention, not even by the brokers' own.
    for node in cluster.nodes.values():
        log = log_of(node)
        assert log is not None and log.is_stray
        log.use_settings(replace(log.settings, retention_ms=0))
        node.parts.log_manager.housekeeping.delete_old_segments()
    assert ends(cluster) == [100, 100, 100]
    await cluster.controller.services.store.create(TopicZnode.path("t"), data)
    await cluster.until_all_know("t", 1, 3)
    await h.produce(cluster, "t", range(5))
    await cluster.until(lambda: ends(cluster) == [105, 105, 105], "old and new records")
    logs = [log_of(node) for node in cluster.nodes.values()]
    assert [log is not None and log.is_stray for log in logs] == [False, False, False]


async def test_an_emptied_store_deletes_nothing(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1], [1, 2])
    await h.create(cluster, "u", [2])
    await h.produce(cluster, "t", range(50), partition=1)
    await h.produce(cluster, "u", range(7))
    store = cluster.controller.services.store
    for path in ("/brokers/topics/t", "/brokers/topics/u", "/config/topics", "/ottla"):
        await remove_tree(store, path)
    await fail_over(cluster)
    await restart_all(cluster)
    await restart_all(cluster, controlled=True)
    assert ends(cluster, TopicPartition("t", 1)) == [None, 50, 50]
    assert ends(cluster, TopicPartition("u", 0)) == [None, None, 7]
    assert ends(cluster) == [0, 0, None]


async def test_another_topic_of_the_name_sets_the_old_log_aside(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1])
    await h.produce(cluster, "t", range(100))
    await vanish(cluster, "t")
    await fail_over(cluster)
    await h.create(cluster, "t", [1, 2])
    await h.produce(cluster, "t", range(3))
    await cluster.until_all_know("t", 1, 2)
    # Where the name is needed the old log has another one; elsewhere it stays as it is.
    assert ends(cluster) == [100, 3, 3]
    [aside] = set_aside(cluster, 1)
    old = h.folder(cluster, 0, "t")
    log_file = "00000000000000000000.log"
    assert (aside / log_file).read_bytes() == (old / log_file).read_bytes()
    assert (aside / "partition.metadata").exists(), "it tells whose it is, whatever its name"
    assert not set_aside(cluster, 0) and not set_aside(cluster, 2)
    await restart_all(cluster)
    await cluster.until_all_know("t", 1, 2)
    strays = [await ottla(cluster, "log-dirs", "--strays", "--broker-list", str(b)) for b in (0, 1)]
    assert str(h.folder(cluster, 0, "t")) in strays[0] and str(aside) in strays[1]
    # The end of the new one is not the end of the old one, and does not wait for it.
    deleted = await ottla(cluster, "topics", "--delete", "--topic", "t", "--wait")
    assert "Deleted topic t (1 of 1)." in deleted
    await cluster.until(lambda: ends(cluster) == [100, None, None], "deleted")
    await restart_all(cluster)
    assert ends(cluster) == [100, None, None]
    assert set_aside(cluster, 1) == [aside]


async def test_the_entry_of_a_deletion_waits_for_the_broker_that_is_down(
    cluster: LocalCluster,
) -> None:
    away = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    await h.create(cluster, "t", [away])
    await h.produce(cluster, "t", range(10))
    await cluster.stop(away)
    await h.delete(cluster, "t")
    await h.until_true(lambda: _is_listed(cluster, (away,)), "the entry is written")
    await fail_over(cluster)
    assert (await ended(cluster))["t"] == (away,)
    assert h.folder(cluster, away, "t").exists()
    await cluster.start(away)
    assert not h.folder(cluster, away, "t").exists()
    assert (await ended(cluster))["t"] == ()


async def _is_listed(cluster: LocalCluster, brokers: tuple[int, ...]) -> bool:
    return (await ended(cluster)).get("t") == brokers


async def test_a_lost_entry_makes_a_stray(cluster: LocalCluster) -> None:
    """Without evidence nothing goes, even what was deleted in truth."""
    away = next(b for b in cluster.nodes if b != cluster.controller.broker_id)
    await h.create(cluster, "t", [away])
    await h.produce(cluster, "t", range(10))
    await cluster.stop(away)
    await h.delete(cluster, "t")
    await h.until_true(lambda: _is_listed(cluster, (away,)), "the entry is written")
    store = cluster.controller.services.store
    for name in await store.children(EndedTopicZnode.parent()):
        await store.delete(f"{EndedTopicZnode.parent()}/{name}")
    node = await cluster.start(away)
    log = log_of(node)
    assert log is not None and log.is_stray and log.end_offset == 10


def forget_id(folder: Path) -> None:
    """As a power cut may leave a log: the records are there, and nothing says whose they are."""
    (folder / checkpoints.PARTITION_METADATA).unlink(missing_ok=True)
    for name in (FILE_NAME, NOTES):
        (folder.parent / name).unlink(missing_ok=True)


async def test_a_log_without_an_id_is_not_of_a_topic_with_fewer_partitions(
    cluster: LocalCluster,
) -> None:
    await h.create(cluster, "t", [0], [0], [0])
    await h.produce(cluster, "t", range(7), partition=1)
    await vanish(cluster, "t")
    await cluster.stop(0, controlled=False)
    for partition in range(3):
        forget_id(h.folder(cluster, 0, "t", partition))
    await h.until_controller_known(cluster)
    # The name goes to a topic that has one partition only.
    await h.create(cluster, "t", [1])
    await cluster.start(0)
    await cluster.until(lambda: len(set_aside(cluster, 0)) == 1, "the records are set aside")
    [aside] = set_aside(cluster, 0)
    assert aside.name.startswith("t-1.") and (aside / "00000000000000000000.log").stat().st_size
    # That one may be the topic's; the other one holds nothing.
    assert h.folder(cluster, 0, "t").exists() and not h.folder(cluster, 0, "t", 2).exists()
    # The topic gets that partition here: it begins at its beginning.
    await expand(cluster, "t", [[0], [0]])
    await h.produce(cluster, "t", range(2), partition=1)
    assert ends(cluster, TopicPartition("t", 1))[0] == 2
    assert set_aside(cluster, 0) == [aside]


async def expand(cluster: LocalCluster, topic: str, replicas: list[list[int]]) -> None:
    total = 1 + len(replicas)

    def call() -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        new = NewPartitions(topic, total, replica_assignment=replicas)
        admin.create_partitions([new])[topic].result(15)

    await asyncio.to_thread(call)
    await cluster.until_all_know(topic, total, 1)
