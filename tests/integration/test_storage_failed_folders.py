"""Data folders that fail on real brokers: two of three at once, and one that is repaired."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ottla.storage.log.log import Log
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

KAFKA_STORAGE_ERROR = 56


def break_folder(folder: Path) -> None:
    folder.rename(folder.with_name(folder.name + "-away"))
    folder.write_text("not a folder")


class Folders(LocalCluster):
    """Two brokers with three folders each."""

    def of(self, broker_id: int) -> list[Path]:
        return [self.folder / f"{broker_id}-{name}" for name in "abc"]

    async def run(self, broker_id: int) -> None:
        await self.start(broker_id, log_dirs=",".join(map(str, self.of(broker_id))))

    def log(self, broker_id: int, topic: str) -> Log | None:
        manager = self.nodes[broker_id].services.replica_manager
        return manager.partitions.log(TopicPartition(topic, 0))

    async def create_in_each_folder(self) -> dict[Path, str]:
        """One topic per folder of broker 0, which leads them all; folder by folder."""
        for topic in ("x", "y", "z"):
            await h.create(self, topic, [0, 1], segment_bytes="1000")
            await h.produce(self, topic, range(20))
            await self.until_all_know(topic, 1, 2)
        found = {}
        for topic in ("x", "y", "z"):
            log = self.log(0, topic)
            assert log is not None
            found[log.data_dir] = topic
        assert sorted(found) == self.of(0)
        return found

    async def fail(self, folder: Path, topic: str) -> None:
        """Files that are open go on working; nothing can be made there any more, which the next
        roll finds out."""
        break_folder(folder)
        await h.produce(self, topic, range(100))
        await self.until(
            lambda: all(h.leader(node, topic) == 1 for node in self.nodes.values()),
            f"broker 1 leads {topic}",
        )

    def repair(self, folder: Path) -> None:
        folder.unlink()
        folder.with_name(folder.name + "-away").rename(folder)

    async def codes(self) -> dict[Path, int]:
        described = await h.ask(self.nodes[0], m.DescribeLogDirsRequest(topics=None), 3)
        return {Path(found.log_dir): found.error_code for found in described.results}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Folders]:
    made = Folders(tmp_path)
    await made.store.start()
    try:
        for broker_id in (0, 1):
            await made.run(broker_id)
        await h.until_controller_known(made)
        yield made
    finally:
        for node in made.nodes.values():
            await node.stop(controlled=False)
        await made.store.stop()


async def test_two_folders_fail_and_the_third_goes_on(cluster: Folders) -> None:
    topics = await cluster.create_in_each_folder()
    *failing, kept = cluster.of(0)
    for folder in failing:
        await cluster.fail(folder, topics[folder])
    dirs = cluster.nodes[0].services.replica_manager.log_manager.dirs
    assert dirs.offline() == failing and dirs.online() == [kept]
    assert await cluster.codes() == {**dict.fromkeys(failing, KAFKA_STORAGE_ERROR), kept: 0}
    # What is in the third is led here still, with all its replicas.
    await h.produce(cluster, topics[kept], range(5))
    assert h.leader(cluster.nodes[1], topics[kept]) == 0
    assert h.isr(cluster.nodes[1], topics[kept]) == {0, 1}
    # New topics go there, though it is not the first.
    for topic in ("new", "newer"):
        await h.create(cluster, topic, [0, 1])
        await h.produce(cluster, topic, range(5))
        await cluster.until_all_know(topic, 1, 2)
        log = cluster.log(0, topic)
        assert log is not None and log.data_dir == kept
    # Those of the failed folders lost nothing, and nobody made them anew elsewhere.
    for folder in failing:
        log = cluster.log(1, topics[folder])
        assert log is not None and log.end_offset == 120
        assert cluster.log(0, topics[folder]) is None
        assert not (kept / f"{topics[folder]}-0").exists()
        assert h.isr(cluster.nodes[1], topics[folder]) == {1}


async def test_a_folder_that_was_repaired_has_its_logs_again(cluster: Folders) -> None:
    topics = await cluster.create_in_each_folder()
    failing, *kept = cluster.of(0)
    topic = topics[failing]
    await cluster.fail(failing, topic)
    # Started again with the folder still broken: out of use, and nothing in its place.
    await cluster.stop(0, controlled=False)
    await cluster.run(0)
    await cluster.until(lambda: h.isr(cluster.nodes[0], topics[kept[0]]) == {0, 1}, "back in sync")
    assert (await cluster.codes())[failing] == KAFKA_STORAGE_ERROR
    assert cluster.log(0, topic) is None and h.leader(cluster.nodes[0], topic) == 1
    await h.produce(cluster, topic, range(30))
    assert not any((folder / f"{topic}-0").exists() for folder in kept)
    # Repaired: the old log is found, what it missed is fetched, and it may lead again.
    await cluster.stop(0, controlled=False)
    cluster.repair(failing)
    await cluster.run(0)
    await cluster.until(lambda: h.isr(cluster.nodes[0], topic) == {0, 1}, "in sync again")
    assert await cluster.codes() == dict.fromkeys(cluster.of(0), 0)
    back, other = cluster.log(0, topic), cluster.log(1, topic)
    assert back is not None and other is not None
    assert back.data_dir == failing and back.end_offset == other.end_offset == 150
    await cluster.stop(1)
    await cluster.until(lambda: h.leader(cluster.nodes[0], topic) == 0, "broker 0 leads")
    await h.produce(cluster, topic, range(5))
    assert back.end_offset == 155
