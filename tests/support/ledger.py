"""Producers that write down what they were promised, and the audit that compares it with a log.

Every record says who sent it and which one it is. One producer sends its numbers in order, each to
partition `number % partitions`, so that a partition must hold the numbers of each producer in
ascending order: a duplicate, a swap or a stranger shows wherever it is. What was promised is kept
as eight bytes per record, for runs of millions.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self

from confluent_kafka import KafkaException, Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

UNANSWERED, FAILED, SOMEWHERE = -1, -2, -3
BURST_S = 0.02
FLUSH_TIMEOUT_S = 120.0
READ_TIMEOUT_S = 300.0
# Of what librdkafka says about its sequence numbers, the latest lines of each producer.
KEPT_LINES = 500
# Why a producer gave up its epoch; kept however much is said afterwards.
TURNING_POINTS = ("ERRSEQ", "ERRPID", "UNKPID")


@dataclass(frozen=True)
class Load:
    """Idempotent producers with acks=all, each on a thread of its own."""

    topic: str
    partitions: int
    producers: int = 4
    records_per_second: int = 400  # of each producer: a steady flow, so that kills meet records
    padding_bytes: int = 60
    settings: dict[str, Any] = field(default_factory=dict)


class Recollection(logging.Handler):
    """librdkafka's own account of retries, producer ids and epochs, for when a record is amiss."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.new_epochs = 0
        self.turning_points: deque[str] = deque(maxlen=KEPT_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        line = f"{time.time():.3f} {said}"
        self.new_epochs += "bumped epoch to" in said
        if said.startswith(TURNING_POINTS):
            self.turning_points.append(line)
        self.lines.append(line)


class LedgerProducer:
    def __init__(self, bootstrap_servers: str, load: Load, number: int) -> None:
        self.answers = array("q")  # by record: its offset, or one of the three signs above
        self.acknowledged = 0
        self.heard_on: set[int] = set()  # partitions
        self.failures: Counter[str] = Counter()
        self.longest_silence_s = 0.0
        self._load = load
        self._number = number
        self._heard_at = time.monotonic()
        self.recollection = Recollection()
        logger = logging.Logger(f"ledger-{number}", logging.DEBUG)
        logger.addHandler(self.recollection)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": f"ledger-{number}",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                # Lost connections are what the test is about: librdkafka need not print them.
                "debug": "eos",
                "logger": logger,
                # Back within the pause between two kills, also after several refused connections.
                "reconnect.backoff.max.ms": 500,
                **load.settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._stop.set()

    def account(self) -> str:
        """What it knows of its own troubles."""
        head = f"producer {self._number}: {self.acknowledged} of {len(self.answers)} acknowledged"
        return "\n".join([head, *self.recollection.turning_points, *self.recollection.lines])

    def finish(self) -> int:
        """How many records are left without an answer."""
        self._thread.join(FLUSH_TIMEOUT_S)
        return int(self._producer.flush(FLUSH_TIMEOUT_S))

    def _run(self) -> None:
        per_burst = max(1, int(self._load.records_per_second * BURST_S))
        next_burst = time.monotonic()
        while not self._stop.is_set():
            for _ in range(per_burst):
                if self._stop.is_set():
                    return
                self._send(len(self.answers))
            next_burst = max(next_burst + BURST_S, time.monotonic())
            self._producer.poll(0)
            while (left_s := next_burst - time.monotonic()) > 0:
                self._producer.poll(left_s)  # returns early when answers come

    def _send(self, record: int) -> None:
        value = b"%d:%d:" % (self._number, record)
        self.answers.append(UNANSWERED)
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._load.topic,
                    value.ljust(self._load.padding_bytes, b"."),
                    partition=record % self._load.partitions,
                    on_delivery=lambda error, message: self._answered(record, error, message),
                )
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                # The topic was said not to exist: every queued record failed with it.
                self.failures[str(error)] += 1
                self._producer.poll(0.1)

    def _answered(self, record: int, error: Any, message: Any) -> None:
        if error is not None:
            self.failures[str(error)] += 1
            self.answers[record] = FAILED
            return
        # A batch that the broker knew already is acknowledged without its place.
        offset = message.offset()
        self.answers[record] = SOMEWHERE if offset is None else offset
        self.acknowledged += 1
        self.heard_on.add(record % self._load.partitions)
        now = time.monotonic()
        self.longest_silence_s = max(self.longest_silence_s, now - self._heard_at)
        self._heard_at = now


class Ledger:
    """All producers of a run."""

    def __init__(self, bootstrap_servers: str, load: Load) -> None:
        self.load = load
        self.producers = [LedgerProducer(bootstrap_servers, load, n) for n in range(load.producers)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for producer in self.producers:
            producer.stop()

    @property
    def acknowledged(self) -> int:
        return sum(producer.acknowledged for producer in self.producers)

    @property
    def failures(self) -> Counter[str]:
        return sum((producer.failures for producer in self.producers), Counter())

    @property
    def longest_silence_s(self) -> float:
        return max(producer.longest_silence_s for producer in self.producers)

    @property
    def new_epochs(self) -> int:
        """How often a producer gave up its epoch: unanswered records may then be written twice,
        whatever the broker does."""
        return sum(producer.recollection.new_epochs for producer in self.producers)

    def recollections(self) -> str:
        return "\n".join(p.account() for p in self.producers)

    def await_more(self, timeout_s: float = 120.0) -> None:
        """Waits until every producer has had a second's worth of further acknowledgements, and one
        on each partition."""
        wanted = [p.acknowledged + self.load.records_per_second for p in self.producers]
        deadline = time.monotonic() + timeout_s
        while silent := [
            p
            for p, w in zip(self.producers, wanted, strict=True)
            if p.acknowledged < w or len(p.heard_on) < self.load.partitions
        ]:
            assert time.monotonic() < deadline, (
                f"no acknowledgements, {self.failures}\n" + "\n".join(p.account() for p in silent)
            )
            assert all(p.is_running for p in self.producers), "a producer's thread broke off"
            time.sleep(0.02)

    def finish(self) -> int:
        """No more records; how many are left without an answer."""
        for producer in self.producers:
            producer.stop()
        return sum(producer.finish() for producer in self.producers)


@dataclass
class Audit:
    """What a reader found, beside what the producers were promised."""

    read: int = 0
    acknowledged: int = 0
    missing: int = 0
    failed_but_there: int = 0
    wrong: list[str] = field(default_factory=list)
    promised: list[str] = field(default_factory=list)  # of the first missing ones

    def complaint(self, text: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(text)

    def verdict(self) -> str | None:
        """Why the log breaks a promise, or None."""
        if self.wrong:
            return "; ".join(self.wrong[:5])
        if not self.missing:
            return None
        return f"{self.missing} acknowledged records are missing: {'; '.join(self.promised)}"


Found = tuple[int, int, bytes]  # partition, offset, value


def audit(ledger: Ledger, found: Iterable[Found]) -> Audit:
    """Every acknowledged record once, where it was promised, in the order of its producer."""
    result = Audit(acknowledged=ledger.acknowledged)
    last: dict[tuple[int, int], int] = {}
    next_offset = [0] * ledger.load.partitions
    confirmed = [bytearray(len(producer.answers)) for producer in ledger.producers]
    for partition, offset, value in found:
        result.read += 1
        where = f"{partition}@{offset}"
        if offset != next_offset[partition]:
            result.complaint(f"{where} follows {next_offset[partition] - 1}")
        next_offset[partition] = offset + 1
        who, record = (int(part) for part in value.split(b":", 2)[:2])
        answer = ledger.producers[who].answers[record]
        if record <= last.get((partition, who), -1):
            result.complaint(f"{where} holds {who}:{record} again or too late")
            continue
        last[partition, who] = record
        if answer == FAILED:
            result.failed_but_there += 1
        elif answer in (offset, SOMEWHERE):
            confirmed[who][record] = 1
        else:
            result.complaint(f"{where} holds {who}:{record}, which was promised at {answer}")
    result.missing = result.acknowledged - sum(map(sum, confirmed))
    if result.missing:
        result.promised = list(islice(_unconfirmed(ledger, confirmed), 20))
    return result


def _unconfirmed(ledger: Ledger, confirmed: list[bytearray]) -> Iterator[str]:
    for who, producer in enumerate(ledger.producers):
        for record, answer in enumerate(producer.answers):
            if answer not in (UNANSWERED, FAILED) and not confirmed[who][record]:
                where = "somewhere" if answer == SOMEWHERE else f"at {answer}"
                yield f"{who}:{record} was promised in {record % ledger.load.partitions} {where}"


def read_back(bootstrap_servers: str, topic: str, partitions: int) -> Iterator[Found]:
    """Everything below the high watermarks, read by kafka-python."""
    places = [KafkaPythonPartition(topic, partition) for partition in range(partitions)]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        enable_auto_commit=False,
        auto_offset_reset="none",
        check_crcs=True,
        max_poll_records=5_000,
    )
    try:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        for place in places:
            consumer.seek(place, 0)
        open_places = {place for place in places if ends[place]}
        deadline = time.monotonic() + READ_TIMEOUT_S
        while open_places:
            assert time.monotonic() < deadline, f"not read to the end: {open_places}"
            for place, records in consumer.poll(timeout_ms=500).items():
                for record in records:
                    yield place.partition, record.offset, record.value
                if consumer.position(place) >= ends[place]:
                    open_places.discard(place)
    finally:
        consumer.close()
