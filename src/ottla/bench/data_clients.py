"""The clients of `ottla bench data`, the same for every side.

Apache Kafka's own load generators where they measure what is asked for; librdkafka where eight
consumers or a steady rate with end-to-end times are: eight JVMs on two cores would measure
themselves.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ottla.bench.data_sides import JVM_FLAGS, PEER_JARS, DataSide
from ottla.errors import OttlaError
from ottla.testing.java import java_command

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
# What kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh set.
CLIENT_HEAP = "-Xmx512M"
TOOL_TIMEOUT_S = 600.0
GROUP_TIMEOUT_S = 300.0
POLL_RECORDS = 10_000
RECORD_BYTES = 100
UNTIMED = b"untimed"
_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)
_FETCH_RATE_COLUMN = 9
_COUNT_COLUMN = 4


class ClientFailed(OttlaError):
    """A load generator did not do its work; the message holds its last words."""


def run_apart(side: DataSide, module: str, orders: dict[str, Any], timeout_s: float) -> Any:
    """What a module prints as JSON that is run in a process of its own: a client whose work is not
    to be counted with ours. It is told where the side's first broker and its processes are."""
    host, port = side.bootstrap_servers.split(",")[0].rsplit(":", 1)
    where = {"host": host, "port": int(port), "pids": list(side.pids())}
    ended = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(orders | where),
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if ended.returncode != 0:
        raise ClientFailed(f"{side.title}: {ended.stderr[-1000:].strip()}")
    return json.loads(ended.stdout)


class Load(NamedTuple):
    """What ProducerPerformance sends."""

    records: int
    record_bytes: int = RECORD_BYTES
    properties: tuple[str, ...] = ("acks=1", "linger.ms=5")


def produce(
    bootstrap_servers: str, topic: str, load: Load, client_config: Path | None = None
) -> float:
    """Records per second, as the tool counts them: from its first send to the last answer."""
    config = () if client_config is None else ("--producer.config", str(client_config))
    printed = _run(
        PRODUCER,
        *("--topic", topic, "--num-records", str(load.records), "--throughput", "-1"),
        *("--record-size", str(load.record_bytes), *config),
        *("--producer-props", f"bootstrap.servers={bootstrap_servers}", *load.properties),
    )
    return produced_rate(printed, load.records)


def produced_rate(printed: str, records: int) -> float:
    """The tool's last line is its summary; those before are of its five-second windows."""
    lines = _PRODUCED.findall(printed)
    if not lines or int(lines[-1][0]) != records:
        raise ClientFailed(f"ProducerPerformance did not send everything: {printed[-1500:]}")
    return float(lines[-1][1])


def consume(
    bootstrap_servers: str, topic: str, records: int, client_config: Path | None = None
) -> float:
    """Records per second while fetching, without the time to join the group."""
    config = () if client_config is None else ("--consumer.config", str(client_config))
    printed = _run(
        CONSUMER,
        *("--bootstrap-server", bootstrap_servers, "--topic", topic),
        *("--messages", str(records), "--hide-header", "--timeout", "60000", *config),
    )
    return consumed_rate(printed, records)


def consumed_rate(printed: str, records: int) -> float:
    for line in reversed(printed.splitlines()):
        columns = [column.strip() for column in line.split(",")]
        if len(columns) > _FETCH_RATE_COLUMN and int(columns[_COUNT_COLUMN]) >= records:
            return float(columns[_FETCH_RATE_COLUMN])
    raise ClientFailed(f"ConsumerPerformance did not read everything: {printed[-1500:]}")


def _run(main_class: str, *arguments: str) -> str:
    command = [*java_command(PEER_JARS, main_class, (CLIENT_HEAP, *JVM_FLAGS)), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"{main_class} took over {TOOL_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise ClientFailed(f"{main_class} failed: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


class GroupRead:
    """Consumers of one group in threads of this process; the clock runs from the moment when
    all of them have their partitions."""

    def __init__(self, bootstrap_servers: str, topic: str, members: int, records: int) -> None:
        from confluent_kafka import Consumer

        self._topic = topic
        self._records = records
        self._read = [0] * members
        self._assigned = [threading.Event() for _ in range(members)]
        self._go = threading.Event()
        self._failure: Exception | None = None
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"bench-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self._consumers: list[Any] = [Consumer(settings) for _ in range(members)]

    def run(self) -> float:
        """Records per second of all members together."""
        threads = [
            threading.Thread(target=self._member, args=(number,), daemon=True)
            for number in range(len(self._consumers))
        ]
        for thread in threads:
            thread.start()
        try:
            for event in self._assigned:
                if not event.wait(GROUP_TIMEOUT_S):
                    raise ClientFailed("not every member of the group got a partition")
            began = time.perf_counter()
            self._go.set()
            while sum(self._read) < self._records and self._failure is None:
                if time.perf_counter() - began > GROUP_TIMEOUT_S:
                    raise ClientFailed(f"the group read {sum(self._read)} of {self._records}")
                time.sleep(0.005)
            elapsed = time.perf_counter() - began
        finally:
            # Whatever happened, the threads end by themselves.
            self._records = 0
            self._go.set()
            for thread in threads:
                thread.join(GROUP_TIMEOUT_S)
            for consumer in self._consumers:
                consumer.close()
        if self._failure is not None:
            raise ClientFailed(f"a member of the group failed: {self._failure}")
        return sum(self._read) / elapsed

    def _member(self, number: int) -> None:
        consumer = self._consumers[number]
        held: list[Any] = []

        def on_assign(_: object, partitions: list[Any]) -> None:
            # An earlier generation may have had other partitions: the last one counts.
            held[:] = partitions
            consumer.assign(partitions)
            if not self._go.is_set():
                consumer.pause(partitions)
            if len(partitions) == 1:
                self._assigned[number].set()
            else:
                self._assigned[number].clear()

        try:
            consumer.subscribe([self._topic], on_assign=on_assign)
            while not self._go.is_set():
                consumer.poll(0.01)
            consumer.resume(held)
            while sum(self._read) < self._records:
                for message in consumer.consume(POLL_RECORDS, 0.1):
                    if message.error():
                        raise ClientFailed(str(message.error()))
                    self._read[number] += 1
        except Exception as error:  # told to whoever waits for the group
            self._failure = error
            self._assigned[number].set()


class Latencies(NamedTuple):
    p50_ms: float
    p99_ms: float


def end_to_end(bootstrap_servers: str, topic: str, rate: int, records: int) -> Latencies:
    """From `produce` to the record in a consumer's hands, both in this process."""
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "acks": "1"})
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-latency"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    deadline = time.perf_counter() + GROUP_TIMEOUT_S
    # Records without a time show that the consumer stands at the end.
    while _received(consumer) is None and time.perf_counter() < deadline:
        producer.produce(topic, UNTIMED, partition=0)
        producer.flush()
    sender = threading.Thread(target=_send_steadily, args=(producer, topic, rate, records))
    sender.start()
    taken: list[float] = []
    while len(taken) < records and time.perf_counter() < deadline:
        latency = _received(consumer)
        if latency:
            taken.append(latency)
    sender.join()
    producer.flush()
    consumer.close()
    if len(taken) < records:
        raise ClientFailed(f"only {len(taken)} of {records} records came back")
    return summary(taken)


def summary(latencies_s: Sequence[float]) -> Latencies:
    cuts = statistics.quantiles(latencies_s, n=100)
    return Latencies(1000 * cuts[49], 1000 * cuts[98])


def _received(consumer: Any) -> float | None:
    """Seconds that the next record was under way, 0 for one without a time; None where there is
    no record yet."""
    message = consumer.poll(0.1)
    if message is None:
        return None
    if message.error():
        raise ClientFailed(str(message.error()))
    value = message.value()
    return 0.0 if value == UNTIMED else (time.perf_counter_ns() - int(value)) / 1e9


def _send_steadily(producer: Any, topic: str, rate: int, records: int) -> None:
    began = time.perf_counter()
    for number in range(records):
        pause = began + number / rate - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        sent = str(time.perf_counter_ns()).ljust(RECORD_BYTES).encode()
        producer.produce(topic, sent, partition=0)
        producer.poll(0)
