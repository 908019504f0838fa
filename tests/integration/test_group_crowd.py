"""Many groups at once on a real broker, as `ottla bench data --only groups` has them, and a real
client that finds what they committed, also after `kill -9`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.bench.groups.crowd import Orders, Storm, run
from ottla.bench.topic_sides import Work
from ottla.process.data_folder import pid_path
from ottla.testing.cluster import ProcessCluster

GROUPS, MEMBERS = 20, 3
TOPIC = "committed"
# What every member of the crowd commits.
OFFSET = 123_456_789
WAIT_S = 30.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    overrides = {"group.initial.rebalance.delay.ms": "200"}
    cluster = ProcessCluster(brokers=1, data=tmp_path, overrides=overrides)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def committed(cluster: ProcessCluster, group: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    wanted = [TopicPartition(TOPIC, number) for number in range(MEMBERS)]
    try:
        return [each.offset for each in consumer.committed(wanted, timeout=WAIT_S)]
    finally:
        consumer.close()


def commit_again_and_again(cluster: ProcessCluster) -> None:
    """With librdkafka: one form, numbers that change."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "real",
            "enable.auto.commit": False,
        }
    )
    try:
        for offset in (1, 2, 3, 1 << 40, 5):
            places = [TopicPartition(TOPIC, number, offset + number) for number in range(MEMBERS)]
            assert all(
                each.error is None for each in consumer.commit(offsets=places, asynchronous=False)
            )
    finally:
        consumer.close()


def test_what_many_groups_commit_is_there_after_a_kill(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    with Work(cluster.bootstrap_servers) as work:
        work.create([TOPIC], MEMBERS)
    host, port = cluster.bootstrap_servers.split(":")
    pid = int(pid_path(tmp_path, "broker-0").read_text())
    found = run(
        Orders(
            host,
            int(port),
            "crowd",
            TOPIC,
            groups=GROUPS,
            members=MEMBERS,
            waves=2,
            storm_s=0.5,
            calm_s=0.3,
            calm_rate=300,
            pids=(pid,),
        )
    )
    # Answers that are not what they have to be would have ended the run.
    storm, calm = Storm(*found["storm"]), Storm(*found["calm"])
    assert storm.per_second > 100
    assert calm.p50_ms < 1000 * WAIT_S
    commit_again_and_again(cluster)
    os.kill(pid, signal.SIGKILL)
    cluster.stop()
    cluster.start()
    groups = [f"crowd-{wave}-{number}" for wave in range(2) for number in (0, GROUPS // 2 - 1)]
    assert [committed(cluster, group) for group in groups] == [[OFFSET] * MEMBERS] * len(groups)
    assert committed(cluster, "real") == [5, 6, 7]
