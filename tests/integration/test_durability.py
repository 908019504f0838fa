"""`kill -9` of leaders and controllers under load: what was acknowledged is there, once, in order.

Three broker processes, replication factor 3, min.insync.replicas 2, several idempotent producers
with acks=all. Every few seconds the controller or the leader of some partition dies and comes
back; most kills wait until everyone is in sync again, some do not, so that a partition is for a
while below its minimum or without any leader.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from ottla.testing import ProcessCluster
from tests.support.campaign import table, write_page
from tests.support.integration.kill_helpers import (
    await_in_sync,
    await_registered,
    controller_node,
    leaders_by_epoch,
    led_twice,
    metadata_store,
    partition_state,
)
from tests.support.known_topics import await_known
from tests.support.ledger import Audit, Ledger, Load, audit, read_back

TOPIC = "ledger"
BROKERS = 3
PARTITIONS = 6
LOAD = Load(TOPIC, PARTITIONS)
OVERRIDES = {
    # The shortest session that the store grants: two of its ticks.
    "zookeeper.session.timeout.ms": "4000",
    # Leaders go back to where they were, beside the elections that kills cause.
    "leader.imbalance.check.interval.seconds": "7",
    # Small segments: recovery after a kill meets more than one.
    "log.segment.bytes": "4000000",
}
IMPATIENT = 0.3


@dataclass
class Run:
    """What happened in a run."""

    seed: int
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    leader_epochs: int = 0
    result: Audit = field(default_factory=Audit)
    failures: Counter[str] = field(default_factory=Counter)
    longest_silence_s: float = 0.0
    new_epochs: int = 0

    def rows(self) -> dict[str, object]:
        return {
            "seed": self.seed,
            "seconds under load": round(self.seconds),
            "kills": ", ".join(f"{n} of the {kind}" for kind, n in sorted(self.kills.items())),
            "leader epochs": self.leader_epochs,
            "acknowledged records": self.result.acknowledged,
            "records read back": self.result.read,
            "acknowledged but missing": self.result.missing,
            "twice, out of order or elsewhere": len(self.result.wrong),
            "refused to the producer": sum(self.failures.values()),
            "epochs that producers began anew": self.new_epochs,
            "longest wait for an acknowledgement, s": round(self.longest_silence_s, 1),
        }


def kill_somebody(
    cluster: ProcessCluster, store: KazooClient, choice: random.Random, run: Run
) -> int:
    """The controller, or the leader of some partition, whoever that is at the moment."""
    deadline = time.monotonic() + 60
    kind = choice.choice(["controller", "leader", "leader"])
    partition = choice.randrange(PARTITIONS)
    while True:
        if kind == "controller":
            found = controller_node(store)
            victim = -1 if found is None else found[0]
        else:
            victim = int(partition_state(store, TOPIC, partition)["leader"])
        if victim >= 0:
            cluster.kill(victim)
            run.kills[kind] += 1
            return victim
        assert time.monotonic() < deadline, f"there is no {kind}"
        time.sleep(0.05)


def kill_for(
    cluster: ProcessCluster, store: KazooClient, ledger: Ledger, run: Run, duration_s: float
) -> None:
    choice = random.Random(run.seed)
    started = time.monotonic()
    ledger.await_more()
    while time.monotonic() < started + duration_s:
        victim = kill_somebody(cluster, store, choice, run)
        # Before or after its session has ended.
        time.sleep(choice.uniform(0.0, 6.0))
        cluster.restart(victim)
        if choice.random() >= IMPATIENT:
            await_registered(store, BROKERS)
            await_in_sync(store, TOPIC, PARTITIONS, BROKERS)
            ledger.await_more()
    await_registered(store, BROKERS)
    await_in_sync(store, TOPIC, PARTITIONS, BROKERS)
    run.seconds = time.monotonic() - started


def log_bytes(cluster: ProcessCluster, broker_id: int, partition: int) -> bytes:
    segments = sorted((cluster.log_dir(broker_id) / f"{TOPIC}-{partition}").glob("*.log"))
    return b"".join(path.read_bytes() for path in segments)


def await_identical_replicas(cluster: ProcessCluster) -> None:
    """Nobody writes any more: the replicas become equal, byte for byte."""
    deadline = time.monotonic() + 60
    for partition in range(PARTITIONS):
        while len({log_bytes(cluster, broker, partition) for broker in range(BROKERS)}) > 1:
            assert time.monotonic() < deadline, f"the replicas of partition {partition} differ"
            time.sleep(0.2)


def durability_run(duration_s: float, seed: int, folder: Path) -> Run:
    """The folder keeps the brokers' logs where the run fails."""
    run = Run(seed)
    print(f"seed {seed}, data and logs in {folder}", flush=True)
    with ProcessCluster(brokers=BROKERS, overrides=OVERRIDES, data=folder) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
        topic = NewTopic(TOPIC, PARTITIONS, BROKERS, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(60)
        await_known(cluster.bootstrap_servers, TOPIC, PARTITIONS)
        with (
            metadata_store(cluster) as store,
            Ledger(cluster.bootstrap_servers, LOAD) as ledger,
        ):
            kill_for(cluster, store, ledger, run, duration_s)
            unanswered = ledger.finish()
            run.failures = ledger.failures
            run.longest_silence_s = ledger.longest_silence_s
            run.new_epochs = ledger.new_epochs
            await_in_sync(store, TOPIC, PARTITIONS, BROKERS)
        run.result = audit(ledger, read_back(cluster.bootstrap_servers, TOPIC, PARTITIONS))
        claims = {key: who for key, who in leaders_by_epoch(cluster).items() if TOPIC in key[0]}
        run.leader_epochs = len(claims)
        print(table(("durability", ""), run.rows().items()), flush=True)
        print(ledger.recollections() if run.result.verdict() else "", flush=True)
        assert unanswered == 0, f"{unanswered} records have no answer"
        assert run.result.verdict() is None, run.result.verdict()
        assert led_twice(claims) == {}
        await_identical_replicas(cluster)
    shutil.rmtree(folder)
    return run


@pytest.mark.timeout(600)
def test_half_a_minute_of_kills_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    run = durability_run(30, int(os.environ.get("OTTLA_SEED", "20")), tmp_path / "cluster")
    assert run.kills.total() >= 3, "somebody died"
    assert run.failures == {}, "every record found its way in the end"
    assert run.result.acknowledged == run.result.read > 1_000


@pytest.mark.campaign
@pytest.mark.timeout(3000)
def test_fifteen_minutes_of_kills_lose_nothing(campaign: None, tmp_path: Path) -> None:
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    minutes = float(os.environ.get("OTTLA_DURABILITY_MINUTES", "15"))
    run = durability_run(minutes * 60, seed, tmp_path / "cluster")
    write_page(
        "durability",
        "Durability under kill -9",
        "The controller or the leader of a partition is killed every few seconds while producers "
        "write; afterwards another client reads everything back "
        "(`tests/integration/test_durability.py`).",
        {
            "brokers": f"{BROKERS} processes, replication factor {BROKERS}, min.insync.replicas 2",
            "producers": f"{LOAD.producers} of confluent-kafka, idempotent, acks=all, "
            f"{LOAD.records_per_second} records/s each, {PARTITIONS} partitions",
            "reader": "kafka-python",
            "session time-out": OVERRIDES["zookeeper.session.timeout.ms"] + " ms",
        },
        table(("measured", ""), run.rows().items()),
    )
    assert run.failures == {}, "every record found its way in the end"
