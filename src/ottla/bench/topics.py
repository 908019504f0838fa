"""`ottla bench topics`: topics made, kept over a restart and deleted, beside Apache Kafka.

All sides run on this machine in the same run and are asked by the same client. A topic counts as
made when a produce to every partition of it succeeded. `OTTLA_BENCH_SCALE=0.1` makes everything
ten times smaller, for a look; goals are only judged at full size.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ottla.bench.simulated_failover import simulated_failover
from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.bench.topic_sides import (
    KraftSide,
    OttlaSide,
    RestartableSide,
    Side,
    Work,
    ZooKeeperModeSide,
)
from ottla.errors import OttlaError
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, missing_reason
from ottla.topics.assignment import BrokerMetadata, assign_replicas

T = TypeVar("T")
SCALE = float(os.environ.get("OTTLA_BENCH_SCALE", "1"))
ALL = ("few", "many", "failover", "simulated", "rolling", "placement")
SINGLE_ROUNDS = 15
SINGLE_PARTITIONS = 4
BULK_TOPICS, BULK_PARTITIONS, WARM_ROUNDS = 200, 10, 3
MANY_TOPICS, MANY_PARTITIONS = 5_000, 4
FAILOVER_TOPICS, FAILOVER_PARTITIONS = 2_000, 10
# 2.8.2 makes about 90 partitions a second: more would take the peer minutes.
FAILOVER_TOPICS_OF_PEER = 100
# Apache Kafka holds a descriptor per partition, and some for itself.
SPARE_DESCRIPTORS = 2_000
# The goals. They are never edited to fit a result.
SINGLE_GOAL = 0.25  # of Kafka 4.1's median
BULK_GOAL = 2.0  # times Kafka 4.1's cold rate
BULK_READY_GOAL = 5_000  # partitions a second, cold and warm
BULK_CPU_GOAL_MS = 0.2  # of the broker, for each
# A side that uses less than this of a core for so long has nothing left to do.
QUIET_S, QUIET_SHARE, QUIET_TIMEOUT_S = 0.5, 0.05, 20.0
RESTART_GOAL_S = 2.0
FLAT_GOAL = 1.5  # the last tenth of the topics costs at most this many times the first
FAILOVER_GOAL_S = 1.0
# In the simulator: what this machine's disk and memory would not hold in a bench.
SIMULATED_PARTITIONS = 100_000
PLACEMENT_GOAL_S = 2.0
FAILOVER_TIMEOUT_S = 120.0
# Large enough that anything but a linear pass would show.
PLACED_PARTITIONS, PLACED_REPLICAS, PLACED_BROKERS, PLACED_RACKS = 200_000, 3, 300, 30


class Small(NamedTuple):
    """What one side took for single topics and for topics in bulk."""

    single_ms: float
    cold_rate: float
    warm_rate: float
    cold_answer_rate: float
    warm_answer_rate: float
    cpu_ms: float  # of the broker, for each partition made in bulk


class Many(NamedTuple):
    """What one side took for many topics on one broker."""

    topics: int
    create_s: float
    growth: float  # cost of the last tenth over that of the first
    stop_s: float
    restart_s: float
    # Of that until every partition had a leader that answered.
    serves_s: float
    delete_s: float
    memory_kb: float
    descriptors: float


def main(output: str = "text", only: Sequence[str] = ()) -> int:
    rows = run(only)
    title = "Topics, peers: Apache Kafka 4.1 (KRaft) and 2.8.2 (ZooKeeper 3.8)"
    print_rows(rows, output, title if SCALE == 1 else f"{title}, at {SCALE:g} of the size")
    return exit_code(rows) if SCALE == 1 else 0


def chosen(only: Sequence[str]) -> set[str]:
    """Raises OttlaError for an unknown name."""
    return chosen_names(only, ALL)


def run(only: Sequence[str] = ()) -> list[Row]:
    wanted = chosen(only)
    with_new, with_old = _is_there("kafka-4.1"), _is_there("kafka-2.8.2", "zookeeper-3.8")
    rows: list[Row] = []
    if "few" in wanted:
        folder_ms = _folder_ms()
        ours = _small(OttlaSide())
        new = _tried(lambda: _small(KraftSide())) if with_new else None
        old = _tried(lambda: _small(ZooKeeperModeSide())) if with_old else None
        rows += _small_rows(ours, new, old)
        rows.append(Row("  a folder and a file on this disk, each", folder_ms, None, "ms"))
    if "many" in wanted:
        many = _many(OttlaSide(), scaled(MANY_TOPICS))
        many_new = _tried(lambda: _many(KraftSide(), _topics_of_peer())) if with_new else None
        rows += _many_rows(many, many_new)
    if "failover" in wanted:
        failover_old = _tried(_failover_of_kafka) if with_old else None
        rows.append(_failover_row(_failover_of_ottla(), failover_old))
    if "simulated" in wanted:
        rows += _simulated_rows()
    if "rolling" in wanted:
        rows.append(_rolling_row(_rolling_s()))
    if "placement" in wanted:
        rows.append(_placement_row(_placement_s()))
    return rows


def scaled(count: int) -> int:
    return max(10, round(count * SCALE))


def _is_there(*names: str) -> bool:
    reason = missing_reason(*names)
    if reason is not None:
        print(f"without {names[0]}: {reason}", file=sys.stderr)
    return reason is None


def _tried(measure: Callable[[], T]) -> T | None:
    """A peer that gives up leaves its column empty; our own failure ends the run."""
    try:
        return measure()
    except OttlaError as error:
        print(f"a peer gave up: {error}", file=sys.stderr)
        return None


def _topics_of_peer() -> int:
    """As many as Apache Kafka has descriptors for on this machine."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return scaled(MANY_TOPICS)
    return min(scaled(MANY_TOPICS), (hard - SPARE_DESCRIPTORS) // MANY_PARTITIONS)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number:05d}" for number in range(count)]


def _small(side: Side) -> Small:
    with side, Work(side.bootstrap_servers) as work:
        # Bulk first: a cold broker is one that has made nothing yet.
        count = scaled(BULK_TOPICS)
        bulk = []
        cpu_s = 0.0
        for round_number in range(1 + WARM_ROUNDS):
            names = _names(f"bulk-{round_number}", count)
            before = side.resources()
            bulk.append(work.create(names, BULK_PARTITIONS))
            cpu_s += side.resources().cpu_s - before.cpu_s
            work.delete(names)
            _await_quiet(side)
        singles = [
            work.create([name], SINGLE_PARTITIONS).ready_s
            for name in _names("single", SINGLE_ROUNDS)
        ]
    made = count * BULK_PARTITIONS
    return Small(
        single_ms=1000 * statistics.median(singles),
        cold_rate=made / bulk[0].ready_s,
        warm_rate=made / min(taken.ready_s for taken in bulk[1:]),
        cold_answer_rate=made / bulk[0].answered_s,
        warm_answer_rate=made / min(taken.answered_s for taken in bulk[1:]),
        cpu_ms=1000 * cpu_s / (made * len(bulk)),
    )


def _await_quiet(side: Side) -> None:
    """Files of deleted topics go behind the answer: that is no part of making the next ones."""
    deadline = time.perf_counter() + QUIET_TIMEOUT_S
    used_s = side.resources().cpu_s
    while time.perf_counter() < deadline:
        time.sleep(QUIET_S)
        before, used_s = used_s, side.resources().cpu_s
        if used_s - before <= QUIET_SHARE * QUIET_S:
            return


def _folder_ms(count: int = 2_000) -> float:
    """What this machine takes for a folder with an empty file in it, the least that a partition
    with a record is: nobody can be faster on its disk."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        began = time.perf_counter()
        for number in range(count):
            path = Path(folder, f"partition-{number}")
            path.mkdir()
            path.joinpath("00000000000000000000.log").touch()
        return 1000 * (time.perf_counter() - began) / count


def _small_rows(ours: Small, new: Small | None, old: Small | None) -> list[Row]:
    single = f"one topic of {SINGLE_PARTITIONS} partitions, created and ready (median)"
    bulk = f"{scaled(BULK_TOPICS)} topics x {BULK_PARTITIONS} in bulk"
    rows = [
        Row(
            single,
            ours.single_ms,
            new.single_ms if new else None,
            "ms",
            f"≤ 1/{1 / SINGLE_GOAL:.0f} of 4.1",
            ours.single_ms <= SINGLE_GOAL * new.single_ms if new else None,
        ),
        Row(
            f"{bulk}, cold",
            ours.cold_rate,
            new.cold_rate if new else None,
            "partitions/s",
            f"≥ {BULK_GOAL:.0f}x 4.1",
            ours.cold_rate >= BULK_GOAL * new.cold_rate if new else None,
            higher_is_better=True,
        ),
        Row(
            f"{bulk}, warm",
            ours.warm_rate,
            new.warm_rate if new else None,
            "partitions/s",
            f"≥ {BULK_READY_GOAL:,}",
            ours.warm_rate >= BULK_READY_GOAL,
            higher_is_better=True,
        ),
    ]
    rate = "partitions/s"
    rows += [
        Row(
            f"  until CreateTopics is answered, {kind}",
            mine,
            theirs,
            rate,
            higher_is_better=True,
        )
        for kind, mine, theirs in (
            ("cold", ours.cold_answer_rate, new.cold_answer_rate if new else None),
            ("warm", ours.warm_answer_rate, new.warm_answer_rate if new else None),
        )
    ]
    rows.append(
        Row(
            "  CPU of the broker for each",
            ours.cpu_ms,
            new.cpu_ms if new else None,
            "ms",
            f"≤ {BULK_CPU_GOAL_MS} ms",
            ours.cpu_ms <= BULK_CPU_GOAL_MS,
        )
    )
    if old is not None:
        rows += [
            Row("  the same beside 2.8.2: one topic", ours.single_ms, old.single_ms, "ms"),
            Row("  cold", ours.cold_rate, old.cold_rate, rate, higher_is_better=True),
            Row("  warm", ours.warm_rate, old.warm_rate, rate, higher_is_better=True),
        ]
    return rows


def _many(side: RestartableSide, count: int) -> Many:
    names = _names("many", count)
    tenth = max(1, count // 10)
    with side:
        before = side.resources()
        with Work(side.bootstrap_servers) as work:
            taken = [
                work.create(names[start : start + tenth], MANY_PARTITIONS).ready_s
                for start in range(0, count, tenth)
            ]
        after = side.resources()
        began = time.perf_counter()
        side.stop_broker()
        stop_s = time.perf_counter() - began
        began = time.perf_counter()
        side.start_broker()
        with Work(side.bootstrap_servers) as work:
            serves_s = work.await_ready(names, MANY_PARTITIONS) - began
            restart_s = time.perf_counter() - began
            delete_s = work.delete(names)
    partitions = count * MANY_PARTITIONS
    # The first tenth pays for what a fresh process still has to load: the second one counts.
    growth = taken[count // tenth - 1] / taken[min(1, len(taken) - 1)]
    return Many(
        topics=count,
        create_s=sum(taken),
        growth=growth,
        stop_s=stop_s,
        restart_s=restart_s,
        serves_s=serves_s,
        delete_s=delete_s,
        memory_kb=(after.memory_mb - before.memory_mb) * 1000 / partitions,
        descriptors=(after.descriptors - before.descriptors) / partitions,
    )


def _many_rows(ours: Many, new: Many | None) -> list[Row]:
    what = f"{ours.topics:,} topics x {MANY_PARTITIONS} on one broker"
    if new is not None and new.topics != ours.topics:
        what += f" (4.1: {new.topics:,})"

    def each(total_s: float, many: Many) -> float:
        return 1000 * total_s / many.topics

    return [
        Row(
            f"{what}: create, per topic",
            each(ours.create_s, ours),
            each(new.create_s, new) if new else None,
            "ms",
        ),
        Row(
            "  the last tenth's cost over that of the second",
            ours.growth,
            new.growth if new else None,
            "x",
            f"≤ {FLAT_GOAL:g}x",
            ours.growth <= FLAT_GOAL,
        ),
        Row("  a clean stop of the broker", ours.stop_s, new.stop_s if new else None, "s"),
        Row(
            "  restart: from the start of the process until every partition takes a record",
            ours.restart_s,
            new.restart_s if new else None,
            "s",
            f"under {RESTART_GOAL_S:.0f} s",
            ours.restart_s < RESTART_GOAL_S,
        ),
        Row(
            "  of that until the broker serves and names a leader of each",
            ours.serves_s,
            new.serves_s if new else None,
            "s",
        ),
        Row(
            "  delete, per topic",
            each(ours.delete_s, ours),
            each(new.delete_s, new) if new else None,
            "ms",
        ),
        Row("  memory per empty partition", ours.memory_kb, new.memory_kb if new else None, "kB"),
        Row(
            "  descriptors per partition",
            ours.descriptors,
            new.descriptors if new else None,
            "",
        ),
    ]


def _failover_of_ottla() -> float:
    with ProcessCluster(brokers=3) as cluster:
        return _failover(cluster, scaled(FAILOVER_TOPICS))


def _failover_of_kafka() -> float:
    with ApacheZooKeeper() as zookeeper, ApacheKafka(zookeeper.address, brokers=3) as kafka:
        return _failover(kafka, scaled(FAILOVER_TOPICS_OF_PEER))


def _failover(cluster: ProcessCluster | ApacheKafka, topics: int) -> float:
    """Seconds from the end of the dead controller's node to a topic that takes records."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError

    with Work(cluster.bootstrap_servers) as work:
        work.create(_names("held", topics), FAILOVER_PARTITIONS)
    store = KazooClient(hosts=cluster.zookeeper, timeout=30.0)
    store.start(timeout=30.0)
    try:
        dead = int(json.loads(store.get("/controller")[0])["brokerid"])
        cluster.kill(dead)
        for path in (f"/brokers/ids/{dead}", "/controller"):
            try:
                store.delete(path)
            except NoNodeError:
                pass  # its session was just over
        began = time.perf_counter()
        with Work(cluster.bootstrap_servers) as work:
            work.create_when_possible("after", FAILOVER_PARTITIONS, FAILOVER_TIMEOUT_S)
        return time.perf_counter() - began
    finally:
        store.stop()
        store.close()


def _rolling_s() -> float:
    """Three brokers, stopped and started in turn, each once the one before it takes records."""
    names = _names("rolled", scaled(FAILOVER_TOPICS))
    with ProcessCluster(brokers=3) as cluster:
        with Work(cluster.bootstrap_servers) as work:
            work.create(names, FAILOVER_PARTITIONS)
        began = time.perf_counter()
        for broker_id in range(3):
            cluster.stop_broker(broker_id)
            cluster.start_broker(broker_id)
            with Work(cluster.bootstrap_servers) as work:
                work.await_ready(names, FAILOVER_PARTITIONS)
        return time.perf_counter() - began


def _rolling_row(taken_s: float) -> Row:
    partitions = scaled(FAILOVER_TOPICS) * FAILOVER_PARTITIONS
    return Row(
        f"rolling restart of three brokers with {partitions:,} partitions (one replica each): "
        "every broker stopped, started, all partitions ready",
        taken_s,
        None,
        "s",
    )


def _simulated_rows() -> list[Row]:
    partitions = scaled(SIMULATED_PARTITIONS)
    taken = simulated_failover(partitions)
    return [
        Row(
            f"controller failover in the simulator, {partitions:,} partitions x 2 replicas: "
            "virtual time to a new topic",
            *(taken.virtual_s, None, "s"),
        ),
        Row("  CPU of two brokers and the store together", taken.cpu_s, None, "s"),
    ]


def _placement_s() -> float:
    """Replica assignment alone: no cluster takes part."""
    brokers = [BrokerMetadata(id, f"rack{id % PLACED_RACKS}") for id in range(PLACED_BROKERS)]
    seeded = random.Random(1)
    began = time.perf_counter()
    assign_replicas(brokers, PLACED_PARTITIONS, PLACED_REPLICAS, random=seeded)
    return time.perf_counter() - began


def _placement_row(taken_s: float) -> Row:
    return Row(
        f"placement of {PLACED_PARTITIONS:,} partitions x {PLACED_REPLICAS} over "
        f"{PLACED_BROKERS} brokers in {PLACED_RACKS} racks",
        taken_s,
        None,
        "s",
        f"under {PLACEMENT_GOAL_S:.0f} s",
        taken_s < PLACEMENT_GOAL_S,
    )


def _failover_row(ours_s: float, old_s: float | None) -> Row:
    partitions = scaled(FAILOVER_TOPICS) * FAILOVER_PARTITIONS
    of_peer = scaled(FAILOVER_TOPICS_OF_PEER) * FAILOVER_PARTITIONS
    return Row(
        f"controller failover with {partitions:,} partitions (peer 2.8.2: {of_peer:,}), "
        "from the end of /controller to a new topic that takes records",
        ours_s,
        old_s,
        "s",
        f"under {FAILOVER_GOAL_S:.0f} s",
        ours_s < FAILOVER_GOAL_S,
    )
