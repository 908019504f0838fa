"""Many connections to few brokers: what is done, and what it must show.

Goals are constants and never edited to fit a result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.bench.connections.generator import (
    CONNECT_S,
    Found,
    GeneratorFailed,
    Load,
    NullServer,
    generator,
    run,
)
from ottla.bench.connections.model import requests_per_s
from ottla.bench.data_cases import Case, Sample, at_least, at_most, median
from ottla.bench.data_sides import DataSide
from ottla.bench.table import Row
from ottla.bench.topic_sides import Work

SECONDS = 6.0
LEAST_SECONDS = 1.0
CEILING_SECONDS = 1.0
PARTITIONS_PER_BROKER = 8
# Answers on the connection that had most, over those on the one that had least.
SPREAD_GOAL = 2.0
MODEL_CORES = 8


class Figures(NamedTuple):
    """The values of a sample: medians of rounds, but for what must never happen the worst round."""

    requests_per_s: float
    p99_ms: float
    first_answer_p99_ms: float
    connected_all_s: float
    broker_us: float
    broker_kernel_us: float
    own_us: float
    ceiling: float
    null_us: float
    never_answered: float
    spread: float


class Goals(NamedTuple):
    """Beside Kafka's; None: the row only informs."""

    rate: float | None = None
    p99: float | None = None
    cpu: float | None = None


def checked(found: Found) -> Found:
    """A run whose answers were wrong measures nothing."""
    if found.failures or not found.requests:
        raise GeneratorFailed(
            f"{found.failures} requests or connections failed, {found.requests} were answered well"
        )
    return found


def figures(found: Found, null: Found) -> Figures:
    return Figures(
        requests_per_s=found.requests_per_s,
        p99_ms=found.p99_ms,
        first_answer_p99_ms=found.first_answer_p99_ms,
        connected_all_s=CONNECT_S if found.connected_all_s is None else found.connected_all_s,
        broker_us=found.broker_us,
        broker_kernel_us=found.broker_kernel_us,
        own_us=found.own_us,
        ceiling=null.requests_per_s,
        null_us=null.broker_us,
        never_answered=found.never_answered,
        spread=found.most_answers / max(1, found.least_answers),
    )


class LoadedCase(Case):
    """A topic of several partitions for each broker, and the generator."""

    def prepare(self, side: DataSide, scale: float) -> None:
        generator()  # says so before a cluster is started
        side.start()
        self.measure(side, scale, -1)

    def _new_topic(self, side: DataSide, number: int) -> tuple[str, Mapping[str, Sequence[int]]]:
        side.uncache()
        topic = f"{self.key}-{number + 1}"
        with Work(side.bootstrap_servers) as work:
            work.create([topic], PARTITIONS_PER_BROKER * self.brokers)
            if number >= 0:
                work.delete([f"{self.key}-{number}"])
            return topic, work.leaders(topic)

    @staticmethod
    def _seconds(scale: float) -> float:
        return max(LEAST_SECONDS, SECONDS * scale)


class Connections(LoadedCase):
    def __init__(self, connections: int, brokers: int, goals: Goals) -> None:
        self.key = f"connections-{connections}" + ("" if brokers == 1 else f"x{brokers}")
        self.brokers = brokers
        self._connections = connections
        self._goals = goals

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        topic, leaders = self._new_topic(side, number)
        load = Load(self._connections, self._seconds(scale))
        found = checked(run(leaders, topic, load, side.pids()))
        usage = side.usage()
        values = figures(found, self._ceiling())
        return Sample(tuple(values), found.broker_us * found.requests / 1e6, usage.memory_mb)

    def _ceiling(self) -> Found:
        """What the generator reaches with as many connections to a server that does nothing; in
        every round, for the machine may be busier in one than in another."""
        with NullServer() as server:
            load = Load(self._connections, CEILING_SECONDS, warm_up_s=0.3)
            leaders = {server.address: range(PARTITIONS_PER_BROKER)}
            return checked(run(leaders, self.key, load, [server.pid]))

    def combine(self, samples: Sequence[Sample]) -> Sample:
        middle = median(samples)
        all_figures = [Figures(*sample.values) for sample in samples]
        values = Figures(*middle.values)._replace(
            never_answered=max(one.never_answered for one in all_figures),
            spread=max(one.spread for one in all_figures),
        )
        return middle._replace(values=tuple(values))

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        mine, theirs, goals = Figures(*ours.values), Figures(*peer.values), self._goals
        where = "1 broker" if self.brokers == 1 else f"{self.brokers} brokers"
        rate, p99, cpu = goals
        return [
            Row(
                f"{self._connections:,} connections, one Produce of 10 × 100 B each, {where}",
                mine.requests_per_s,
                theirs.requests_per_s,
                "requests/s",
                "" if rate is None else at_least(rate),
                None if rate is None else mine.requests_per_s >= rate * theirs.requests_per_s,
                higher_is_better=True,
            ),
            Row(
                "  p99",
                mine.p99_ms,
                theirs.p99_ms,
                "ms",
                "" if p99 is None else at_most(p99),
                None if p99 is None else mine.p99_ms <= p99 * theirs.p99_ms,
            ),
            Row(
                "  broker CPU per request",
                mine.broker_us,
                theirs.broker_us,
                "µs",
                "" if cpu is None else at_most(cpu),
                None if cpu is None else mine.broker_us <= cpu * theirs.broker_us,
            ),
            Row("  of that the kernel's", mine.broker_kernel_us, theirs.broker_kernel_us, "µs"),
            *self._fairness_rows(mine, theirs),
            Row(
                "  the limit: CPU of a server in Rust that only reads and answers",
                *(mine.null_us, None, "µs"),
            ),
            Row("  the generator's own CPU per request", mine.own_us, theirs.own_us, "µs"),
            Row("  what it reaches with that server", mine.ceiling, None, "requests/s"),
        ]

    @staticmethod
    def _fairness_rows(mine: Figures, theirs: Figures) -> list[Row]:
        return [
            Row(
                "  never answered (worst round)",
                mine.never_answered,
                theirs.never_answered,
                "",
                "none",
                mine.never_answered == 0,
            ),
            Row(
                "  most answers on a connection over least (worst round)",
                mine.spread,
                theirs.spread,
                "x",
                f"≤ {SPREAD_GOAL:g}x",
                mine.spread <= SPREAD_GOAL,
            ),
            Row(
                "  first answer of a connection, p99",
                mine.first_answer_p99_ms,
                theirs.first_answer_p99_ms,
                "ms",
                "≤ p99 of all",
                mine.first_answer_p99_ms <= mine.p99_ms,
            ),
            Row("  until all are connected", mine.connected_all_s, theirs.connected_all_s, "s"),
        ]


class Brokers(LoadedCase):
    """The same load on one, two and three of three brokers, and what that says about more cores."""

    key = "brokers"
    brokers = 3
    connections = 300

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        topic, leaders = self._new_topic(side, number)
        load = Load(self.connections, max(LEAST_SECONDS, self._seconds(scale) / 2))
        values: list[float] = []
        cpu_s = 0.0
        for count in range(1, self.brokers + 1):
            some = dict(list(leaders.items())[:count])
            found = checked(run(some, topic, load, side.pids()))
            values += [found.requests_per_s, found.broker_us, found.own_us]
            cpu_s += found.broker_us * found.requests / 1e6
        return Sample(tuple(values), cpu_s, side.usage().memory_mb)

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        cores = len(os.sched_getaffinity(0))
        rows: list[Row] = []
        for count in range(1, self.brokers + 1):
            place = 3 * (count - 1)
            rate, broker_us, own_us = ours.values[place : place + 3]
            rows += [
                Row(
                    f"{self.connections} connections to {count} of 3 brokers, {cores} cores",
                    *(rate, peer.values[place], "requests/s"),
                    higher_is_better=True,
                ),
                Row("  broker CPU per request", broker_us, peer.values[place + 1], "µs"),
                Row(
                    "  by model, the generator on the same cores",
                    *(requests_per_s(cores, count, broker_us, own_us), None, "requests/s"),
                ),
            ]
        broker_us, their_us = ours.values[1], peer.values[1]
        rows += [
            # A broker of Kafka has threads for all cores.
            Row(
                f"{MODEL_CORES} cores, load from elsewhere, by model: {brokers}",
                requests_per_s(MODEL_CORES, count, broker_us),
                requests_per_s(MODEL_CORES, MODEL_CORES, their_us),
                "requests/s",
                higher_is_better=True,
            )
            for brokers, count in (("1 broker", 1), ("one broker per core", MODEL_CORES))
        ]
        return rows


CASES: tuple[Case, ...] = (
    Connections(50, 1, Goals()),
    Connections(1_000, 1, Goals(rate=0.6, cpu=1.0)),
    Connections(4_000, 1, Goals()),
    Connections(1_000, 3, Goals(rate=1.0, p99=1.0)),
    Brokers(),
)
