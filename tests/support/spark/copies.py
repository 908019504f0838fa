"""Topics that are copied in tests, written and judged by a client of others (confluent-kafka)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.topics.partitioners import Partitioner, partition_of

WAIT_S = 60
FIRST_TIME_MS = 1_600_000_000_000


class Kept(NamedTuple):
    """A record without its place. No two of a test have the same time: it is their name."""

    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Records = dict[int, list[Kept]]


class Writer:
    """Writes records of all kinds, one partition at a time or by key."""

    def __init__(self, servers: str, topic: str, seed: int = 18) -> None:
        self.servers, self.topic = servers, topic
        self._rng = random.Random(seed)
        self._count = 0

    def produce(self, producer: Producer, partition: int, key: bytes | None) -> None:
        rng = self._rng
        value = None if key is not None and rng.random() < 0.05 else b"v%d" % self._count
        headers: Any = [("n", b"%d" % self._count), ("n", None)] if rng.random() < 0.2 else []
        producer.produce(
            self.topic,
            key=key,
            value=value,
            partition=partition,
            headers=headers,
            timestamp=FIRST_TIME_MS + self._count,
        )
        self._count += 1

    def keyed(self, count: int, partitions: int, codec: str = "none") -> None:
        """Where murmur2 puts them; some have no key, some an empty one."""
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "linger.ms": 5,
                "compression.type": codec,
                # A campaign writes more at once than the queue takes by default.
                "queue.buffering.max.messages": 500_000,
            }
        )
        for _ in range(count):
            kind = self._rng.random()
            key = b"k%d" % self._rng.randrange(50) if kind > 0.1 else b"" if kind > 0.05 else None
            place = partition_of(Partitioner.MURMUR2, key, partitions)
            self.produce(producer, self._rng.randrange(partitions) if place is None else place, key)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0

    def transactions(self, partitions: int) -> None:
        """One that counts, one that does not."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.topic})
        producer.init_transactions(WAIT_S)
        for commit in (True, False, True):
            producer.begin_transaction()
            for number in range(40):
                key = b"t%d" % number
                place = partition_of(Partitioner.MURMUR2, key, partitions)
                assert place is not None
                self.produce(producer, place, key)
            producer.flush(WAIT_S)
            if commit:
                producer.commit_transaction(WAIT_S)
            else:
                producer.abort_transaction(WAIT_S)


def read_all(servers: str, topic: str, isolation: str = "read_uncommitted") -> Records:
    """Everything that a consumer is given, by partition and in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    numbers = sorted(consumer.list_topics(topic, WAIT_S).topics[topic].partitions)
    found: Records = {number: [] for number in numbers}
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    waiting = set(numbers)
    while waiting:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{topic}: nothing comes of {waiting}"
        if message.error() is not None:
            waiting.discard(message.partition())
            continue
        headers: Any = tuple(tuple(header) for header in message.headers() or ())
        key: Any = message.key()
        value: Any = message.value()
        partition: Any = message.partition()
        found[partition].append(Kept(message.timestamp()[1], key, value, headers))
    consumer.close()
    return found


def assert_copied(
    source: Records, target: Records, places: Mapping[int, int] | None = None
) -> None:
    """Every record once, where murmur2 puts its key, and those of a source partition in order.
    `places` by time says where a record goes otherwise."""
    where = {r.time_ms: (s, n) for s, records in source.items() for n, r in enumerate(records)}
    sent = {r.time_ms: r for records in source.values() for r in records}
    came = [r for records in target.values() for r in records]
    times = [r.time_ms for r in came]
    assert len(times) == len(set(times)), "a record is there twice"
    assert sent.keys() == set(times), f"{len(sent)} records were there, {len(times)} are"
    assert all(sent[r.time_ms] == r for r in came), "a record is not what it was"
    for partition, records in target.items():
        last: dict[int, int] = {}
        for record in records:
            s, n = where[record.time_ms]
            assert last.get(s, -1) < n, f"records of {s} are out of order in {partition}"
            last[s] = n
            if places is not None:
                assert places[record.time_ms] == partition
                continue
            wanted = partition_of(Partitioner.MURMUR2, record.key, len(target))
            assert partition == (s % len(target) if wanted is None else wanted)


def total(records: Records) -> int:
    return sum(map(len, records.values()))
