"""`kill -9` of drivers, workers and brokers in the middle of a copy.

Every record is there once, for a consumer that reads everything that was ever written. This is for
the campaign; `test_copy.py` has a round for every run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import ProcessCluster
from tests.support.judges import need
from tests.support.spark import copy_driver
from tests.support.spark.copies import Writer, assert_copied, read_all
from tests.support.spark.kill_processes import family, is_worker
from tests.support.spark.topics import Topics

pytestmark = pytest.mark.spark

ROUNDS = 10
RECORDS = 150_000
WAIT_S = 300.0
MOST_WORKERS = 8


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_rounds_of_kills(campaign: None, tmp_path: Path) -> None:
    need(missing_reason())
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    rounds = int(os.environ.get("OTTLA_ROUNDS") or ROUNDS)
    with ProcessCluster(brokers=3, overrides={"default.replication.factor": "3"}) as cluster:
        for number in range(rounds):
            print(f"round {number}, seed {seed + number}", flush=True)
            # librdkafka's administrator remembers a controller that was killed in the last round.
            topics = Topics(cluster.bootstrap_servers)
            one_round(cluster, topics, random.Random(seed + number), tmp_path / f"round-{number}")


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_copy_outlives_its_workers(campaign: None, tmp_path: Path) -> None:
    """A job fails with one worker, and its other tasks write on for some seconds beside the next
    attempt. The driver goes on by itself, however often."""
    need(missing_reason())
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    rounds = int(os.environ.get("OTTLA_ROUNDS") or ROUNDS)
    with ProcessCluster(brokers=3, overrides={"default.replication.factor": "3"}) as cluster:
        topics = Topics(cluster.bootstrap_servers)
        source = topics.create(partitions=12, replicas=3)
        Writer(topics.servers, source, seed=seed).keyed(3 * RECORDS, 12)
        written = read_all(topics.servers, source)
        for number in range(rounds):
            print(f"round {number}, seed {seed + number}", flush=True)
            target = topics.create(partitions=5, replicas=3)
            folder = tmp_path / f"round-{number}"
            kill_workers(topics.servers, source, target, random.Random(seed + number), folder)
            assert_copied(written, read_all(topics.servers, target))


def kill_workers(
    servers: str, source: str, target: str, choice: random.Random, folder: Path
) -> None:
    folder.mkdir()
    log = folder / "driver.log"
    arguments = [servers, source, target, str(folder / "checkpoint")]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, copy_driver.__file__, *arguments], stdout=out, stderr=out
        )
    kills = 0
    while process.poll() is None:
        time.sleep(choice.uniform(0.3, 2.0))
        workers = [one for one in family(process.pid) if is_worker(one)]
        pids, parents = {one.pid for one in workers}, {one.parent for one in workers}
        # Also a daemon that has just been started, but not one after the other.
        victims = [one for one in workers if one.parent in pids or one.pid in parents]
        victims = victims if kills else workers
        if b"copying" in log.read_bytes() and victims and kills < MOST_WORKERS:
            choice.choice(victims).kill()
            kills += 1
    said = log.read_text()
    assert process.returncode == 0 and "copied" in said.split(), said[-3000:]
    print(f"  {kills} workers killed, {said.count('is tried again')} attempts failed", flush=True)
    assert kills


def one_round(cluster: ProcessCluster, topics: Topics, choice: random.Random, folder: Path) -> None:
    sources, targets = choice.choice([(12, 5), (5, 16), (3, 3), (1, 4)])
    source = topics.create(partitions=sources, replicas=3)
    target = topics.create(partitions=targets, replicas=3)
    Writer(topics.servers, source, seed=choice.randrange(1 << 30)).keyed(RECORDS, sources)
    folder.mkdir()
    log = folder / "driver.log"
    arguments = [topics.servers, source, target, str(folder / "checkpoint")]
    kills = 0
    while True:
        before = log.read_bytes().count(b"copying") if log.exists() else 0
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, copy_driver.__file__, *arguments], stdout=out, stderr=out
            )
        killed = kills < 4 and killed_while_it_copies(process, log, before, cluster, choice)
        if process.wait(WAIT_S) == 0:
            break
        kills += 1
        assert killed, f"the driver ended by itself: {log.read_text()[-2000:]}"
    assert "copied" in log.read_text().split() and kills
    assert_copied(read_all(topics.servers, source), read_all(topics.servers, target))
    print(f"  {sources} -> {targets}: {kills} drivers killed", flush=True)


def killed_while_it_copies(
    process: subprocess.Popen[bytes],
    log: Path,
    before: int,
    cluster: ProcessCluster,
    choice: random.Random,
) -> bool:
    """A worker or a broker first, sometimes; then the driver and its JVM."""
    deadline = time.monotonic() + WAIT_S
    while log.read_bytes().count(b"copying") == before:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.05)
    time.sleep(choice.random() * 3)
    victim = choice.choice(["worker", "broker", "nobody"])
    if victim == "worker":
        for worker in filter(is_worker, family(process.pid)):
            worker.kill()
    elif victim == "broker":
        broker = choice.randrange(3)
        cluster.kill(broker)
        cluster.start_broker(broker)
    time.sleep(choice.random() * 2)
    if process.poll() is not None:
        return False
    for one in family(process.pid):
        if not is_worker(one):
            one.kill()
    return True
