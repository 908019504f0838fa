"""Clients of a topic that is being resized, and what they have to find in the end.

A Java producer numbers the records of each key and notes which of them were acknowledged. A group
of librdkafka reads them. `judge` is strict: each key's acknowledged records reach the group, in
their order, and come again only where the report or the group's own commits say so.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from ottla.testing.java import TOOL_FLAGS, java_command

PROGRAM = Path(__file__).parents[2] / "spark" / "resize_java" / "KeyedProducer.java"
WAIT_S = 300.0

Key = TypeVar("Key")
Numbers = Mapping[int, Iterable[int]]


class Outcomes(NamedTuple):
    """By key: numbers of records that were acknowledged, in the order of sending; and how many
    failed, by the producer's own errors."""

    acknowledged: dict[int, list[int]]
    failures: dict[str, int]


class JavaProducer:
    """`KeyedProducer.java` in a process of its own."""

    def __init__(
        self,
        servers: str,
        topic: str,
        folder: Path,
        *,
        keys: int,
        first: int,
        rate: float,
        settings: Mapping[str, str] | None = None,
        jars: str = "kafka-2.8.2",
    ) -> None:
        self._file = folder / "outcomes"
        self._log = folder / "producer.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [
            *java_command(jars, str(PROGRAM), TOOL_FLAGS),
            *(servers, topic, str(keys), str(first), str(rate), str(self._file)),
            *(f"{name}={value}" for name, value in (settings or {}).items()),
        ]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def await_filled(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "filled\n", self._log.read_text()[-2000:]

    def finish(self) -> Outcomes:
        """Lets it send what it still has; records for partitions that are gone wait for
        `delivery.timeout.ms`."""
        said, _ = self._process.communicate("stop", timeout=WAIT_S)
        assert self._process.returncode == 0, self._log.read_text()[-2000:]
        words = [line.split() for line in said.splitlines()]
        failures = {line[1]: int(line[2]) for line in words if line[0] == "failed"}
        noted = np.fromfile(self._file, ">i4").reshape(-1, 3)
        (sent,) = [int(line[1]) for line in words if line[0] == "sent"]
        assert len(noted) == sent, "an outcome is missing"
        stored = noted[noted[:, 2] == 1]
        acknowledged = {
            int(key): sorted(stored[stored[:, 0] == key, 1].tolist())
            for key in np.unique(stored[:, 0])
        }
        return Outcomes(acknowledged, failures)


class GroupReader:
    """One member of a group of librdkafka on a thread of its own; commits what it has read, and
    counts what it has read and could not commit."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self.seen: dict[int, list[int]] = defaultdict(list)
        self.records = 0
        self.uncommitted = 0
        self.last_s = time.monotonic()
        self.failure: BaseException | None = None
        self._topic = topic
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "session.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 2,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def await_numbers(self, wanted: Numbers) -> None:
        """Until every one of them was read, or nothing has come for long."""
        deadline_s = 60.0
        while not self.has(wanted):
            if self.failure is not None:
                raise self.failure
            if time.monotonic() - self.last_s > deadline_s:
                return
            time.sleep(0.5)

    def has(self, wanted: Numbers) -> bool:
        return all(set(numbers) <= set(self.seen[key]) for key, numbers in wanted.items())

    def _run(self) -> None:
        try:
            self._consumer.subscribe([self._topic])
            while not self._stop.is_set():
                self._take()
        except BaseException as error:
            self.failure = error
        finally:
            self._consumer.close()

    def _take(self) -> None:
        ends: dict[int, int] = {}
        count = 0
        for message in self._consumer.consume(2_000, timeout=0.2):
            key, value, offset = message.key(), message.value(), message.offset()
            partition = message.partition()
            if message.error() is not None or key is None or value is None:
                continue
            assert partition is not None and offset is not None
            self.seen[int(key)].append(int(value))
            ends[partition] = offset + 1
            count += 1
        if not count:
            return
        self.records += count
        self.last_s = time.monotonic()
        where = [TopicPartition(self._topic, p, at) for p, at in ends.items()]
        try:
            self._consumer.commit(offsets=where, asynchronous=False)
        except KafkaException:
            self.uncommitted += count


class Verdict(NamedTuple):
    missing: int
    disordered: int
    again: int

    @classmethod
    def of(
        cls, acknowledged: Mapping[Key, Iterable[int]], seen: Mapping[Key, Iterable[int]]
    ) -> Verdict:
        """`disordered` records came for the first time after a later one of their key; `again` are
        those that came more than once."""
        missing = disordered = again = 0
        found = {key: list(numbers) for key, numbers in seen.items()}
        for key, numbers in acknowledged.items():
            missing += len(set(numbers) - set(found.get(key, ())))
        for numbers in found.values():
            known: set[int] = set()
            latest = -1
            for number in numbers:
                if number in known:
                    again += 1
                elif number < latest:
                    disordered += 1
                known.add(number)
                latest = max(latest, number)
        return cls(missing, disordered, again)


def judge(outcomes: Outcomes, reader: GroupReader, reported_again: int) -> Verdict:
    verdict = Verdict.of(outcomes.acknowledged, reader.seen)
    assert verdict.missing == 0, f"{verdict}: acknowledged records did not reach the group"
    assert verdict.disordered == 0, f"{verdict}: records of a key came in another order"
    allowed = reported_again + reader.uncommitted
    assert verdict.again <= allowed, f"{verdict}: only {allowed} were to come again"
    return verdict
