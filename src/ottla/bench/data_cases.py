"""The rows of `ottla bench data`: what is done, and what it must show.

Goals are constants and never edited to fit a result.
"""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from ottla.bench import data_clients
from ottla.bench.data_clients import Load
from ottla.bench.data_sides import DataSide
from ottla.bench.table import Row
from ottla.bench.topic_sides import Work

ROUNDS = 3
MILLIONS = 2_000_000
WARM_UP_SHARE = 0.25
LATENCY_RATE = 1_000
LATENCY_S = 20
IDLE_PARTITIONS, IDLE_TOPICS = 10_000, 100
IDLE_TOPICS_AT_ONCE = 10
IDLE_SETTLE_S, IDLE_WATCH_S = 15.0, 30.0
IDLE_CPU_GOAL = 2.0  # per cent of a core
PLAINTEXT_CPU_GOAL = 1 / 4  # of the peer's, wherever records pass unencrypted
IDLE_MEMORY_GOAL = 1 / 4
GROUP_MEMBERS = 8
START_GOAL = 1 / 5
START_TIMEOUT_S = 120.0
FULL_BYTES = 10 * 1000**3
FULL_RECORD_BYTES = 1_000
# Both sides write recovery points every minute (log.flush.offset.checkpoint.interval.ms).
CHECKPOINT_S = 65.0


class Sample(NamedTuple):
    """What one round on one side gave."""

    values: tuple[float, ...]
    cpu_s: float
    memory_mb: float


def median(samples: Iterable[Sample]) -> Sample:
    """Number by number."""
    samples = list(samples)
    values = zip(*(sample.values for sample in samples), strict=True)
    return Sample(
        tuple(statistics.median(column) for column in values),
        statistics.median(sample.cpu_s for sample in samples),
        max(sample.memory_mb for sample in samples),
    )


def at_least(goal: float) -> str:
    return "≥ Kafka's" if goal == 1 else f"≥ {goal:g}x Kafka's"


def at_most(goal: float) -> str:
    return "≤ Kafka's" if goal == 1 else f"≤ 1/{1 / goal:.0f} of Kafka's"


def scaled(count: float, scale: float, least: int = 1_000) -> int:
    return max(least, round(count * scale))


class Case(ABC):
    """One piece of work on a cluster of `brokers`."""

    key: str
    brokers = 1
    rounds = ROUNDS
    # Whether the load is encrypted.
    tls = False
    # Configs of the brokers, beside what every case has.
    overrides: ClassVar[Mapping[str, str]] = {}

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()

    @abstractmethod
    def measure(self, side: DataSide, scale: float, number: int) -> Sample: ...

    @abstractmethod
    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]: ...

    def combine(self, samples: Sequence[Sample]) -> Sample:
        """What the rounds of one side come to."""
        return median(samples)

    def _cost_rows(self, ours: Sample, peer: Sample, cpu_goal: float | None) -> list[Row]:
        holds = None if cpu_goal is None else ours.cpu_s <= cpu_goal * peer.cpu_s
        goal = "" if cpu_goal is None else at_most(cpu_goal)
        return [
            Row("  broker CPU", ours.cpu_s, peer.cpu_s, "s", goal, holds),
            Row("  resident memory", ours.memory_mb, peer.memory_mb, "MB"),
        ]


class Throughput(Case):
    """Records per second of one client run."""

    def __init__(self, key: str, title: str, rate_goal: float, cpu_goal: float) -> None:
        self.key = key
        self._title = title
        self._rate_goal = rate_goal
        self._cpu_goal = cpu_goal

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        self.ready(side, f"{self.key}-{number}")
        before = side.usage()
        rate = self.work(side, scale, f"{self.key}-{number}")
        after = side.usage()
        return Sample((rate,), after.cpu_s - before.cpu_s, after.memory_mb)

    def ready(self, side: DataSide, topic: str) -> None:
        """What a round needs and is not measured."""

    @abstractmethod
    def work(self, side: DataSide, scale: float, topic: str) -> float: ...

    def records(self, scale: float) -> int:
        return scaled(MILLIONS, scale)

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        mine, theirs = ours.values[0], peer.values[0]
        rate = Row(
            f"{self._title}, {self.records(scale):,} records",
            mine,
            theirs,
            "records/s",
            at_least(self._rate_goal),
            mine >= self._rate_goal * theirs,
            higher_is_better=True,
        )
        return [rate, *self._cost_rows(ours, peer, self._cpu_goal)]


class Produce(Throughput):
    """ProducerPerformance into a new topic each round."""

    def __init__(
        self,
        key: str,
        title: str,
        rate_goal: float,
        cpu_goal: float,
        *,
        load: Load,
        brokers: int = 1,
        tls: bool = False,
    ) -> None:
        super().__init__(key, title, rate_goal, cpu_goal)
        self.brokers = brokers
        self.tls = tls
        self._load = load

    def records(self, scale: float) -> int:
        return scaled(self._load.records, scale)

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        self.ready(side, "warm-up")
        self._send(side, "warm-up", scaled(self._load.records * WARM_UP_SHARE, scale))

    def ready(self, side: DataSide, topic: str) -> None:
        side.uncache()
        with Work(side.bootstrap_servers) as work:
            # One partition for each broker.
            work.create([topic], self.brokers, replicas=self.brokers)

    def work(self, side: DataSide, scale: float, topic: str) -> float:
        return self._send(side, topic, self.records(scale))

    def _send(self, side: DataSide, topic: str, records: int) -> float:
        load = self._load._replace(records=records)
        return data_clients.produce(side.load_servers, topic, load, side.client_config)


class Consume(Throughput):
    """All records of one topic, read by ConsumerPerformance or by a group."""

    topic = "to-read"

    def __init__(
        self,
        key: str,
        title: str,
        rate_goal: float,
        cpu_goal: float,
        *,
        members: int = 1,
        tls: bool = False,
    ) -> None:
        super().__init__(key, title, rate_goal, cpu_goal)
        self._members = members
        self.tls = tls

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([self.topic], self._members)
        load = Load(self.records(scale))
        data_clients.produce(side.bootstrap_servers, self.topic, load)
        self.work(side, scale, self.topic)

    def work(self, side: DataSide, scale: float, topic: str) -> float:
        records = self.records(scale)
        if self._members == 1:
            return data_clients.consume(side.load_servers, self.topic, records, side.client_config)
        return data_clients.GroupRead(
            side.bootstrap_servers, self.topic, self._members, records
        ).run()


class Latency(Case):
    key = "latency"

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([self.key], 1)
        self._run(side, scale * WARM_UP_SHARE)

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        before = side.usage()
        values = self._run(side, scale)
        after = side.usage()
        return Sample(tuple(values), after.cpu_s - before.cpu_s, after.memory_mb)

    def _run(self, side: DataSide, scale: float) -> data_clients.Latencies:
        records = scaled(LATENCY_RATE * LATENCY_S, scale)
        return data_clients.end_to_end(side.bootstrap_servers, self.key, LATENCY_RATE, records)

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        rows = [
            Row(
                f"end-to-end latency at {LATENCY_RATE:,} records/s, {name}",
                mine,
                theirs,
                "ms",
                at_most(1),
                mine <= theirs,
            )
            for name, mine, theirs in zip(("p50", "p99"), ours.values, peer.values, strict=True)
        ]
        return [*rows, *self._cost_rows(ours, peer, None)]


class Idle(Case):
    """Partitions with a record each, and nobody who wants anything of them."""

    key = "idle"
    rounds = 1

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        names = [f"idle-{number}" for number in range(self._topics(scale))]
        with Work(side.bootstrap_servers) as work:
            for start in range(0, len(names), IDLE_TOPICS_AT_ONCE):
                some = names[start : start + IDLE_TOPICS_AT_ONCE]
                work.create(some, IDLE_PARTITIONS // IDLE_TOPICS)

    def _topics(self, scale: float) -> int:
        return scaled(IDLE_TOPICS, scale, 1)

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        time.sleep(IDLE_SETTLE_S)
        before = side.usage()
        time.sleep(IDLE_WATCH_S)
        after = side.usage()
        busy_s = after.cpu_s - before.cpu_s
        return Sample((100 * busy_s / IDLE_WATCH_S,), busy_s, after.memory_mb)

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        partitions = self._topics(scale) * (IDLE_PARTITIONS // IDLE_TOPICS)
        return [
            Row(
                f"{partitions:,} idle partitions: resident memory",
                ours.memory_mb,
                peer.memory_mb,
                "MB",
                at_most(IDLE_MEMORY_GOAL),
                ours.memory_mb <= IDLE_MEMORY_GOAL * peer.memory_mb,
            ),
            Row(
                "  CPU",
                ours.values[0],
                peer.values[0],
                "% of a core",
                f"under {IDLE_CPU_GOAL:g} %",
                ours.values[0] < IDLE_CPU_GOAL,
            ),
        ]


class StartEmpty(Case):
    """From the start of the process to the first record of a new topic."""

    key = "start-empty"

    def prepare(self, side: DataSide, scale: float) -> None:
        """Nothing runs, nothing is there."""

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        self.clear(side)
        began = time.perf_counter()
        side.launch()
        side.await_up()
        with Work(side.bootstrap_servers) as work:
            self.first_record(work)
        taken = time.perf_counter() - began
        usage = side.usage()
        side.kill()
        return Sample((taken,), usage.cpu_s, usage.memory_mb)

    def clear(self, side: DataSide) -> None:
        side.wipe()

    def first_record(self, work: Work) -> None:
        work.create_when_possible("first", 1, START_TIMEOUT_S)

    def title(self, scale: float) -> str:
        return "from the start to the first record, empty"

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        mine, theirs = ours.values[0], peer.values[0]
        holds = mine <= START_GOAL * theirs
        return [
            Row(self.title(scale), mine, theirs, "s", at_most(START_GOAL), holds),
            *self._cost_rows(ours, peer, None),
        ]


class StartFull(StartEmpty):
    """The same after `kill -9`, with one large partition of the usual segments (1 GB)."""

    key = "start-full"
    topic = "large"

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([self.topic], 1)
        load = Load(scaled(FULL_BYTES / FULL_RECORD_BYTES, scale), FULL_RECORD_BYTES)
        data_clients.produce(side.bootstrap_servers, self.topic, load)
        time.sleep(CHECKPOINT_S * min(1.0, scale))
        side.kill()

    def clear(self, side: DataSide) -> None:
        """What was written is what this is about."""

    def first_record(self, work: Work) -> None:
        work.await_ready([self.topic], 1)

    def title(self, scale: float) -> str:
        return f"the same after kill -9, with one partition of {10 * scale:g} GB"


CASES: tuple[Case, ...] = (
    Produce(
        "produce",
        "ProducerPerformance, 100 B, acks=1, linger 5 ms",
        1.5,
        PLAINTEXT_CPU_GOAL,
        load=Load(MILLIONS),
    ),
    Produce(
        "produce-1k", "the same with 1 kB", 1.0, PLAINTEXT_CPU_GOAL, load=Load(MILLIONS, 1_000)
    ),
    Produce(
        "produce-lz4",
        "the same with lz4",
        1.0,
        PLAINTEXT_CPU_GOAL,
        load=Load(MILLIONS, properties=("acks=1", "linger.ms=5", "compression.type=lz4")),
    ),
    Produce(
        "unbatched",
        "unbatched (batch.size=1)",
        1.2,
        PLAINTEXT_CPU_GOAL,
        load=Load(200_000, properties=("acks=1", "linger.ms=5", "batch.size=1")),
    ),
    Produce(
        "replicated",
        "acks=all, RF 3, 3 brokers",
        1.0,
        PLAINTEXT_CPU_GOAL,
        load=Load(MILLIONS, properties=("acks=all", "linger.ms=5")),
        brokers=3,
    ),
    Consume("consume", "ConsumerPerformance", 1.0, PLAINTEXT_CPU_GOAL),
    Consume(
        "group",
        f"{GROUP_MEMBERS} consumers in one group",
        1.0,
        PLAINTEXT_CPU_GOAL,
        members=GROUP_MEMBERS,
    ),
    Produce(
        "produce-tls",
        "ProducerPerformance over TLS, 1 kB, acks=1",
        1.0,
        1.0,
        load=Load(MILLIONS, 1_000),
        tls=True,
    ),
    Consume("consume-tls", "ConsumerPerformance over TLS", 1.0, 1.0, tls=True),
    Latency(),
    Idle(),
    StartEmpty(),
    StartFull(),
)
