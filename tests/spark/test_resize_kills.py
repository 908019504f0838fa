"""`kill -9` of the command with its Spark driver, of a broker and of the controller, at moments of
a resize that the seed draws. For the campaign."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import missing_reason as missing_peer
from tests.support.campaign import table, write_page
from tests.support.judges import need
from tests.support.spark.resize_kill_round import BROKERS, Round, run_round

pytestmark = pytest.mark.spark

ROUNDS = 30
RECORDS = 30_000


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_processes_die_while_a_topic_is_resized(campaign: None, tmp_path: Path) -> None:
    need(missing_reason())
    need(missing_peer("kafka-2.8.2"))
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    rounds = int(os.environ.get("OTTLA_ROUNDS") or ROUNDS)
    overrides = {
        "zookeeper.session.timeout.ms": "4000",
        "controlled.shutdown.enable": "false",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "8",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    done: list[Round] = []
    failed: dict[int, str] = {}
    with ProcessCluster(brokers=BROKERS, overrides=overrides) as cluster:
        for number in range(rounds):
            print(f"round {number}, seed {seed + number}", flush=True)
            folder = tmp_path / f"round-{number}"
            try:
                found = run_round(cluster, f"orders-{number}", seed + number, RECORDS, folder)
            except AssertionError as error:
                # The others are worth knowing too; what brokers wrote stays for whoever looks.
                failed[seed + number] = str(error).splitlines()[0]
                print(f"   failed: {failed[seed + number]}", flush=True)
                shutil.copytree(cluster.options.data / "logs", folder / "logs")
                continue
            print("  ", *found.row(), sep=" | ", flush=True)
            done.append(found)
    write_page(
        "resize-kills",
        "Processes die while a topic is resized",
        "`kill -9` of the command with its Spark driver, of the controller or of another broker, "
        "while an idempotent Java producer writes and a group of librdkafka reads; then the same "
        "command again, or `--abort`. The topic is as it was or resized, holds every acknowledged "
        "record once, each in the partition of its key and in order; the group gets them in order; "
        "no shadow, entry or fence is left (`tests/spark/test_resize_kills.py`).",
        {
            "brokers": f"{BROKERS} processes, replication factor 3, min.insync.replicas 2",
            "records": f"{RECORDS:,} at first, then 500 per second",
            "rounds": f"{len(done)} of {rounds} passed, seeds from {seed}",
        },
        table(Round.HEAD, (found.row() for found in done)),
    )
    assert not failed, failed
