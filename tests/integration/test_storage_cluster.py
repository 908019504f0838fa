"""Storage on real brokers: a folder that fails, replicas that move, compaction under clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

TP = TopicPartition("t", 0)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Two brokers with two folders each."""
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    try:
        for broker_id in (0, 1):
            folders = ",".join(str(tmp_path / f"{broker_id}-{name}") for name in "ab")
            await cluster.start(
                broker_id,
                log_dirs=folders,
                log_cleaner_backoff_ms="50",
                group_min_session_timeout_ms="1000",
                offsets_topic_num_partitions="1",
                offsets_topic_segment_bytes="4096",
                log_cleaner_min_cleanable_ratio="0.01",
            )
        await h.until_controller_known(cluster)
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()


def break_folder(folder: Path) -> None:
    """Files that are open go on working; nothing can be made or renamed there any more."""
    folder.rename(folder.with_name(folder.name + "-away"))
    folder.write_text("not a folder")


async def test_a_failed_folder_goes_offline_and_its_leaders_move(pair: LocalCluster) -> None:
    await h.create(pair, "t", [0, 1], segment_bytes="1000", min_insync_replicas="1")
    await h.create(pair, "other", [0, 1])
    await h.produce(pair, "t", range(5))
    await pair.until_all_know("t", 1, 2)
    manager = pair.nodes[0].services.replica_manager
    log, other = manager.partitions.log(TP), manager.partitions.log(TopicPartition("other", 0))
    assert log is not None and other is not None and log.data_dir != other.data_dir
    break_folder(log.data_dir)
    for first in range(5, 200, 39):
        # A roll finds out; the client goes on at broker 1.
        await h.produce(pair, "t", range(first, first + 39))
    await pair.until(
        lambda: all(h.leader(node, "t") == 1 for node in pair.nodes.values()), "broker 1 leads"
    )
    assert manager.partitions.is_offline(TP)
    assert manager.log_manager.dirs.offline() == [log.data_dir]
    assert h.leader(pair.nodes[0], "other") == 0
    await h.produce(pair, "other", range(5))
    moved = pair.nodes[1].services.replica_manager.partitions.log(TP)
    assert moved is not None and moved.end_offset == 200
    described = await h.ask(pair.nodes[0], m.DescribeLogDirsRequest(topics=None), 3)
    codes = {result.log_dir: result.error_code for result in described.results}
    assert codes == {str(log.data_dir): 56, str(other.data_dir): 0}


async def test_a_replica_moves_between_folders_under_load(pair: LocalCluster) -> None:
    await h.create(pair, "t", [0, 1], segment_bytes="50000")
    await h.produce(pair, "t", range(2000))
    manager = pair.nodes[0].services.replica_manager
    home = manager.log_manager.get(TP)
    assert home is not None
    target = next(path for path in manager.log_manager.dirs.online() if path != home.data_dir)
    alter = m.AlterReplicaLogDirsRequest
    topic = alter.AlterReplicaLogDirTopic(name="t", partitions=[0])
    wish = alter(dirs=[alter.AlterReplicaLogDir(path=str(target), topics=[topic])])
    answer = await h.ask(pair.nodes[0], wish, 2)
    assert answer.results[0].partitions[0].error_code == 0
    await h.produce(pair, "t", range(2000, 4000))

    def is_there() -> bool:
        log = manager.partitions.log(TP)
        return log is not None and log.data_dir == target

    await pair.until(is_there, "the replica is in the other folder")
    await h.produce(pair, "t", range(4000, 4100))
    assert await asyncio.to_thread(consume_all, pair.bootstrap, "t") == [
        str(number).encode() for number in range(4100)
    ]


def consume_all(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([Place(topic, 0, 0)])
    _, end = consumer.get_watermark_offsets(Place(topic, 0), timeout=10)
    values: list[bytes] = []
    while True:
        message = consumer.poll(10)
        assert message is not None and message.error() is None, message
        values.append(message.value())
        if message.offset() == end - 1:
            consumer.close()
            return values


def commit(bootstrap: str, group: str, rounds: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    for number in range(rounds):
        consumer.commit(offsets=[Place("t", 0, number)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return int(consumer.committed([Place("t", 0)], timeout=15)[0].offset)
    finally:
        consumer.close()


async def test_committed_offsets_are_compacted_and_load_afterwards(pair: LocalCluster) -> None:
    await h.create(pair, "t", [0, 1])
    await asyncio.to_thread(commit, pair.bootstrap, "g", 150)
    offsets = TopicPartition("__consumer_offsets", 0)
    logs = [node.services.replica_manager.partitions.log(offsets) for node in pair.nodes.values()]
    assert all(log is not None and log.end_offset >= 150 for log in logs)
    await pair.until(
        lambda: all(log is not None and log.cleaned_offset > 100 for log in logs),
        "both replicas are compacted",
    )
    assert all(log is not None and log.size < 8192 for log in logs)
    coordinator = h.leader(pair.nodes[0], "__consumer_offsets")
    assert coordinator is not None
    await pair.stop(coordinator)
    await h.until_controller_known(pair)
    assert await asyncio.to_thread(committed, pair.bootstrap, "g") == 149


async def test_compaction_under_a_producer_keeps_the_last_value(pair: LocalCluster) -> None:
    await h.create(
        pair,
        "t",
        [0, 1],
        cleanup_policy="compact",
        segment_bytes="4000",
        min_cleanable_dirty_ratio="0.01",
    )

    def write() -> None:
        producer = Producer({"bootstrap.servers": pair.bootstrap, "enable.idempotence": True})
        for number in range(3000):
            producer.produce("t", b"%d" % number, b"key-%d" % (number % 20), partition=0)
            if number % 50 == 0:
                producer.flush(10)
        assert producer.flush(10) == 0

    await asyncio.to_thread(write)
    logs = [node.services.replica_manager.partitions.log(TP) for node in pair.nodes.values()]
    await pair.until(
        lambda: all(log is not None and log.cleaned_offset > 2500 for log in logs), "compacted"
    )
    values = await asyncio.to_thread(consume_all, pair.bootstrap, "t")
    assert len(values) < 1000
    assert values[-20:] == [b"%d" % number for number in range(2980, 3000)]


async def set_broker_configs(cluster: LocalCluster, configs: dict[str, str | None]) -> None:
    """On every broker itself; None takes a config back."""
    request = m.IncrementalAlterConfigsRequest
    for broker_id, node in cluster.nodes.items():
        entries = [
            request.AlterableConfig(
                name=name, config_operation=1 if value is None else 0, value=value
            )
            for name, value in configs.items()
        ]
        resource = request.AlterConfigsResource(
            resource_type=4, resource_name=str(broker_id), configs=entries
        )
        answer = await h.ask(node, request(resources=[resource]), 0)
        assert answer.responses[0].error_code == 0, answer


async def test_a_throttled_reassignment_waits_until_the_throttle_goes(
    pair: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await h.create(
        pair,
        "t",
        [0],
        leader_replication_throttled_replicas="0:0",
        follower_replication_throttled_replicas="0:1",
    )
    for first in range(0, 400_000, 100_000):
        await h.produce(pair, "t", range(first, first + 100_000))
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    await set_broker_configs(pair, dict.fromkeys(rates, "1000"))
    throttles = pair.nodes[1].services.replica_manager.throttles
    await pair.until(lambda: throttles.follower.limit == 1000, "the rate is known")
    pauses: list[bool] = []
    must_pause = throttles.must_pause

    def decide(log: Any) -> bool:
        pauses.append(must_pause(log))
        return pauses[-1]

    monkeypatch.setattr(throttles, "must_pause", decide)
    assert await h.reassign(pair, "t", {0: [0, 1]}) == {0: 0}

    def end() -> int:
        log = pair.nodes[1].services.replica_manager.partitions.log(TP)
        return 0 if log is None else log.end_offset

    await pair.until(lambda: end() > 0, "the first bytes came")
    await pair.until(lambda: pauses[-3:] == [True] * 3, "the follower pauses")
    assert end() < 400_000 and h.isr(pair.nodes[0], "t") == {0}
    await set_broker_configs(pair, dict.fromkeys(rates))
    await pair.until_all_know("t", 1, 2)
    assert end() == 400_000
