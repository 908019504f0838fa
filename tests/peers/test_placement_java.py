"""Replica placement is that of Kafka's AdminUtils: hundreds of random clusters, every replica."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from ottla.errors import KafkaError
from ottla.testing.java import java_command
from ottla.topics.assignment import BrokerMetadata, assign_replicas
from tests.support.peers.java_tools import need_jars

pytestmark = pytest.mark.peers

PROGRAM = Path(__file__).parent / "placement_java" / "Place.java"
CASES = 600


class Case(NamedTuple):
    seed: int
    partitions: int
    factor: int
    fixed_start: int
    first_partition: int
    brokers: list[BrokerMetadata]

    def line(self) -> str:
        brokers = ",".join(f"{broker.id}:{broker.rack or ''}" for broker in self.brokers)
        return " ".join([*map(str, self[:5]), brokers])


def random_case(source: Random) -> Case:
    count = source.randint(1, 12)
    ids = sorted(source.sample(range(30), count))
    racks = [f"rack{i}" for i in range(source.randint(1, 5))]
    kind = source.choice(["none", "all", "all", "some"])
    brokers = [
        BrokerMetadata(
            broker,
            source.choice(racks)
            if kind == "all" or (kind == "some" and source.random() < 0.5)
            else None,
        )
        for broker in ids
    ]
    has_fixed_start = source.random() < 0.3
    return Case(
        seed=source.getrandbits(48),
        partitions=source.randint(0 if source.random() < 0.05 else 1, 40),
        # Now and then one more than there are brokers, or none at all.
        factor=source.randint(1, count) if source.random() < 0.9 else source.choice([0, count + 1]),
        fixed_start=source.randrange(count) if has_fixed_start else -1,
        first_partition=source.randrange(20) if has_fixed_start else -1,
        brokers=brokers,
    )


def ours(case: Case, start: int, shift: int) -> str:
    try:
        placed = assign_replicas(
            case.brokers,
            case.partitions,
            case.factor,
            random=Random(0),
            fixed_start_index=case.fixed_start,
            start_partition_id=case.first_partition,
            start_index=start,
            shift=shift,
        )
    except KafkaError as error:
        return f"error {error}"
    texts = [f"{partition}:{','.join(map(str, placed[partition]))}" for partition in sorted(placed)]
    return " ".join([str(start), str(shift), *texts])


def test_every_replica_is_where_kafka_puts_it() -> None:
    need_jars("kafka-2.8.2")
    source = Random(282)
    cases = [random_case(source) for _ in range(CASES)]
    run = subprocess.run(
        java_command("kafka-2.8.2", str(PROGRAM)),
        input="".join(case.line() + "\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = run.stdout.splitlines()
    assert len(answers) == CASES
    starts = set()
    for case, answer in zip(cases, answers, strict=True):
        start, shift = (0, 0) if answer.startswith("error") else map(int, answer.split()[:2])
        starts.add(start != shift)
        assert ours(case, start, shift) == answer, case
    assert starts == {True, False}, "start and shift both vary"
    failed = {answer.split(":")[0] for answer in answers if answer.startswith("error")}
    assert len(failed) >= 3, "all refusals were met"
