"""`ottla bench start`: how soon a cluster answers, and what an idle broker costs.

The peer is Apache Kafka 2.8.2 with ZooKeeper 3.8, where their jars were fetched: the same three
processes, asked the same question over the same socket, one round of ours and one of theirs in
turn. A cluster counts as up when broker 0 answers Metadata and names all three brokers.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from ottla.bench.table import Row, exit_code, print_rows
from ottla.testing.cluster import Cluster, ClusterError, ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, brokers_known, missing_reason

BROKERS = 3
ROUNDS = 5
IMPORT_ROUNDS = 7
PROBE_EVERY_S = 0.002
UP_TIMEOUT_S = 60.0
# The goals. They are never edited to fit a result.
UP_GOAL_S = 1.0
IN_PROCESS_GOAL_S = 0.5
MEMORY_GOAL_MB = 80.0
IMPORT_GOAL_MS = 150.0
IMPORT_PROGRAM = """\
import time
began = time.perf_counter()
import ottla.process.node
print(1000 * (time.perf_counter() - began))
"""


@dataclass(slots=True)
class Samples:
    """What the rounds of one side gave."""

    up_s: list[float] = field(default_factory=list)
    in_process_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


def main(output: str) -> int:
    found = run()
    print_rows(found, output, title="Start, peer: Apache Kafka 2.8.2 on ZooKeeper 3.8")
    return exit_code(found)


def run() -> list[Row]:
    """Measures everything; takes about half a minute with the peer, a few seconds without."""
    ours, theirs = Samples(), Samples()
    with_peer = missing_reason("kafka-2.8.2", "zookeeper-3.8") is None
    for _ in range(ROUNDS):
        measure_ottla(ours)
        measure_in_process(ours)
        if with_peer:
            measure_kafka(theirs)
    return rows(ours, theirs, import_ms())


def rows(ours: Samples, theirs: Samples, import_time_ms: float) -> list[Row]:
    up_s, memory_mb = statistics.median(ours.up_s), max(ours.memory_mb)
    in_process_s = statistics.median(ours.in_process_s)
    return [
        Row(
            work="from `ottla up --brokers 3` to a Metadata answer that names all three",
            ours=up_s,
            peer=statistics.median(theirs.up_s) if theirs.up_s else None,
            unit="s",
            goal=f"under {UP_GOAL_S:.0f} s",
            holds=up_s < UP_GOAL_S,
        ),
        Row(
            work="ottla.testing.Cluster(brokers=3) inside a process",
            ours=in_process_s,
            peer=None,
            unit="s",
            goal=f"under {IN_PROCESS_GOAL_S:g} s",
            holds=in_process_s < IN_PROCESS_GOAL_S,
        ),
        Row(
            work="resident memory of a broker, started and idle",
            ours=memory_mb,
            peer=max(theirs.memory_mb) if theirs.memory_mb else None,
            unit="MB",
            goal=f"under {MEMORY_GOAL_MB:.0f} MB",
            holds=memory_mb < MEMORY_GOAL_MB,
        ),
        Row(
            work="import ottla.process.node",
            ours=import_time_ms,
            peer=None,
            unit="ms",
            goal=f"under {IMPORT_GOAL_MS:.0f} ms",
            holds=import_time_ms < IMPORT_GOAL_MS,
        ),
    ]


def measure_ottla(samples: Samples) -> None:
    """One start of `ottla up --brokers 3`, the interpreter's own start included."""
    began = time.perf_counter()
    with ProcessCluster(brokers=BROKERS) as cluster:
        deadline = began + UP_TIMEOUT_S
        while brokers_known(cluster.options.port) < BROKERS:
            if time.perf_counter() > deadline:
                raise ClusterError(f"no Metadata answer with {BROKERS} brokers")
            time.sleep(PROBE_EVERY_S)
        samples.up_s.append(time.perf_counter() - began)
        samples.memory_mb.append(max(resident_mb(cluster.pid(i)) for i in range(BROKERS)))


def measure_in_process(samples: Samples) -> None:
    """What a test waits for; the first one also loads the modules."""
    began = time.perf_counter()
    with Cluster(brokers=BROKERS) as cluster:
        while brokers_known(cluster.options.port) < BROKERS:
            if time.perf_counter() > began + UP_TIMEOUT_S:
                raise ClusterError(f"no Metadata answer with {BROKERS} brokers")
            time.sleep(PROBE_EVERY_S)
        samples.in_process_s.append(time.perf_counter() - began)


def measure_kafka(samples: Samples) -> None:
    began = time.perf_counter()
    with ApacheZooKeeper() as zookeeper, ApacheKafka(zookeeper.address, brokers=BROKERS) as kafka:
        samples.up_s.append(time.perf_counter() - began)
        samples.memory_mb.append(max(resident_mb(kafka.pid(i)) for i in range(BROKERS)))


def resident_mb(pid: int) -> float:
    """VmRSS: what is shared with the other brokers counts in full for each of them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ClusterError(f"process {pid} has no resident memory")


def import_ms() -> float:
    """The least of several fresh interpreters: what else the machine does can only add to it."""
    command = [sys.executable, "-c", IMPORT_PROGRAM]
    taken = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(IMPORT_ROUNDS)
    ]
    return min(taken)
