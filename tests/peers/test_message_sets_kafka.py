"""Requests of clients older than 0.11 to Apache Kafka 2.8.2 and to Ottla: the same codes, offsets
and records, for new and old consumers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import zip_longest
from typing import Any
from zlib import crc32

import confluent_kafka
import cramjam
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.wire import lz4_header, message_sets, records
from ottla.wire import messages as m
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from ottla.wire.records import Record
from tests.support.peers.java_tools import eventually

pytestmark = pytest.mark.peers

_NOW_MS = 1_700_000_000_000
_TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "bounded": {"message.timestamp.difference.max.ms": "1000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "small": {"max.message.bytes": "1000"},
    "not-down": {"message.downconversion.enable": "false"},
}

# --- what is sent ---------------------------------------------------------------------------------


def _set(magic: int, codec: int = NONE, *, count: int = 3, key: bytes | None = b"k") -> bytes:
    items = [Record(key, b"v%d" % n, _NOW_MS + n, offset=n) for n in range(count)]
    return message_sets.build_message_set(items, magic=magic, compression=codec)


def _message(
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = _NOW_MS,
    offset: int = 0,
    behind: bytes = b"",
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    body += struct.pack(">i", -1)
    body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return _entry(body + behind, offset)


def _entry(body: bytes, offset: int = 0) -> bytes:
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


def _wrapper(inner: bytes, codec: int = GZIP, magic: int = 1, offset: int = 0) -> bytes:
    return _message(compress(codec, inner), magic=magic, attributes=codec, offset=offset)


def _batch(codec: int = NONE, **kwargs: Any) -> bytes:
    return records.build_batch(
        [Record(b"k", b"v", _NOW_MS, [("h", b"1")])] * 3, compression=codec, **kwargs
    )


def _good() -> Iterator[tuple[str, bytes]]:
    for magic in (0, 1):
        for codec in (NONE, GZIP, SNAPPY, LZ4):
            yield f"magic {magic} codec {codec}", _set(magic, codec)
        yield f"one by one {magic}", _set(magic, count=40)
        yield f"no keys {magic}", _set(magic, GZIP, key=None)
    yield "raw snappy", _message(bytes(cramjam.snappy.compress_raw(_set(1))), attributes=SNAPPY)
    yield "lz4 as it should be", _wrapper(_set(0), LZ4, magic=0)
    yield "nulls", _message(None)
    yield "any negative size", _entry(struct.pack(">bbii", 0, 0, -7, -9))
    yield "bytes behind the value", _message(behind=b"more")
    yield "a cut end", _set(1)[:-1]
    yield "a cut end inside", _wrapper(_set(1)[:-1])
    yield "nothing whole", _set(1)[:-1][:20]
    yield "nothing", b""
    yield "a wrapper at its last offset", _wrapper(_set(1), offset=2)
    yield "a wrapper far away", _wrapper(_set(1), offset=1000)
    yield "a batch", _batch()
    yield "a compressed batch", _batch(GZIP)
    yield "a zstd batch", _batch(ZSTD)
    yield "no time", _message(timestamp=-1)


def _bad() -> Iterator[tuple[str, bytes]]:
    damaged = _set(1)[:-1] + b"\xff"
    yield "wrong crc", damaged
    yield "wrong crc inside", _wrapper(damaged)
    yield "a length of 13", struct.pack(">qi", 0, 13) + bytes(13)
    yield "a length of 13 inside", _wrapper(struct.pack(">qi", 0, 13) + bytes(13))
    yield "a length of 13 behind", _set(1) + struct.pack(">qi", 0, 13) + bytes(13)
    yield "magic 3", _message(magic=3)
    yield "magic 3 inside", _wrapper(_message(magic=3))
    yield "two formats", _message() + _message(magic=0)
    yield "two formats inside", _wrapper(_message(magic=0))
    yield "a batch behind", _message() + _batch()
    yield "behind a batch", _batch() + _message()
    yield "two batches", _batch() * 2
    yield "two wrappers", _set(1, GZIP) * 2
    yield "a wrapper among others", _message() + _set(1, GZIP)
    yield "a wrapper in a wrapper", _wrapper(_set(1, GZIP))
    yield "an empty wrapper", _wrapper(b"")
    yield "a wrapper without a value", _message(None, attributes=GZIP)
    yield "a wrapper before its last", _wrapper(_set(1), offset=1)
    yield "zstd", _wrapper(_set(1), ZSTD)
    yield "not gzip", _message(b"not gzip at all", attributes=GZIP)
    yield "not snappy", _message(b"not snappy at all", attributes=SNAPPY)
    yield "not lz4", _message(b"not lz4 at all", attributes=LZ4)
    yield (
        "lz4 with the old checksum",
        _message(lz4_header.with_old_checksum(compress(LZ4, _set(1))), attributes=LZ4),
    )
    yield "codec 6", _message(attributes=6)
    yield "a negative time", _message(timestamp=-2)
    yield "append time", _message(attributes=8)
    yield "a wrapper with append time", _message(compress(GZIP, _set(1)), attributes=GZIP | 8)
    yield "a key too long", _entry(struct.pack(">bbqi", 1, 0, 5, 99) + bytes(9))
    yield "a value too long", _entry(struct.pack(">bbqii", 1, 0, 5, -1, 99) + bytes(9))
    yield (
        "transactional",
        _batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
    )


def _requests() -> Iterator[tuple[str, str, int, bytes]]:
    """Name, topic, version of Produce, data."""
    for name, data in (*_good(), *_bad()):
        yield name, "plain", 2, data
    for version in (0, 1, 3, 8):
        yield "a set", "plain", version, _set(1, GZIP)
        yield "sets", "plain", version, _set(0)
    for topic in (
        "append-time",
        "uncompressed",
        "gzip",
        "zstd",
        "compacted",
        "bounded",
        "not-down",
    ):
        for name, data in _good():
            yield name, topic, 2, data
    far = _message(timestamp=5)
    for topic in ("bounded", "append-time"):
        yield "far", topic, 2, far
        yield "far inside", topic, 2, _wrapper(_message() + far)
        yield "no time", topic, 2, _message(magic=0)
    for codec in (NONE, GZIP):
        yield "small ones", "small", 2, _set(1, codec, count=30)
    yield "too large", "small", 2, _message(bytes(1000))
    yield "too large together", "small", 2, _message(bytes(300)) * 4


# --- who is asked ---------------------------------------------------------------------------------


class _Broker:
    """The first broker of a cluster, which leads all topics here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, message: Any, version: int) -> Any:
        return await self._connection.send(message, version, timeout_ms=20_000)

    async def produce(self, topic: str, version: int, data: bytes) -> tuple[int, int, bool]:
        request = m.ProduceRequest
        part = request.PartitionProduceData(index=0, records=memoryview(data))
        answer = await self.send(
            request(
                acks=-1,
                timeout_ms=10_000,
                topic_data=[request.TopicProduceData(name=topic, partition_data=[part])],
            ),
            version,
        )
        found = answer.responses[0].partition_responses[0]
        return found.error_code, found.base_offset, found.log_append_time_ms >= 0

    async def fetch(self, topic: str, version: int, offset: int, max_bytes: int) -> Any:
        request = m.FetchRequest
        part = request.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        answer = await self.send(
            request(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[request.FetchTopic(topic=topic, partitions=[part])],
            ),
            version,
        )
        return answer.responses[0].partitions[0]


@asynccontextmanager
async def _broker_of(bootstrap_servers: str) -> AsyncIterator[_Broker]:
    host, port = bootstrap_servers.split(",")[0].split(":")
    connection = await Connection.open(system_runtime().network, host, int(port), client_id="old")
    try:
        yield _Broker(connection)
    finally:
        connection.close()


async def _make_topics(cluster: Any, broker: _Broker, topics: dict[str, dict[str, str]]) -> None:
    """On the first broker; waits until it leads them all."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [
        # What is sent is years old: it must not expire.
        NewTopic(name, 1, replica_assignment=[[0]], config={"retention.ms": "-1", **configs})
        for name, configs in topics.items()
    ]
    for made in admin.create_topics(wanted).values():
        made.result(30)
    for _ in range(500):
        found = [(await broker.fetch(topic, 11, 0, 100)).error_code for topic in topics]
        if not any(found):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(dict(zip(topics, found, strict=True)))


# --- what is read ---------------------------------------------------------------------------------


def _found_in(data: memoryview) -> Iterator[tuple[Any, ...]]:
    """Whole messages and records: offset, format, codec, type of time, time, key, value."""
    for entry in message_sets.iter_entries(data):
        if entry[records.MAGIC_AT] == records.MAGIC:
            header = records.read_header(entry)
            for record in records.iter_records(entry):
                kind = header.is_log_append_time
                yield (
                    record.offset, 2, header.codec, kind, None if kind else record.timestamp,
                    record.key, record.value, header.record_count,
                )  # fmt: skip
            continue
        outer = message_sets.read_message(entry)
        for message in message_sets.inner_messages(outer) if outer.codec else [outer]:
            kind = message.is_log_append_time
            yield (
                message.offset, message.magic, outer.codec, kind,
                None if kind else message.timestamp, message.key, message.value,
            )  # fmt: skip


async def _read_all(
    broker: _Broker, topic: str, version: int, offset: int = 0, max_bytes: int = 1 << 20
) -> list[Any]:
    """All that a client gets that goes on where it was; ends with an error or the log's end."""
    found: list[Any] = []
    while True:
        answer = await broker.fetch(topic, version, offset, max_bytes)
        if answer.error_code:
            return [*found, ("error", answer.error_code, answer.high_watermark)]
        start = len(found)
        for item in _found_in(answer.records or memoryview(b"")):
            # Kafka converts what comes behind a marker twice where the marker was asked for.
            if item[0] >= offset:
                found.append(item)
                offset = item[0] + 1
        if len(found) == start:
            return [*found, ("end", answer.high_watermark, bool(answer.records))]


async def _both(
    ottla: Any, kafka: Any, topics: dict[str, dict[str, str]], play: Callable[[_Broker], Any]
) -> tuple[list[Any], list[Any]]:
    answers = []
    for cluster in (ottla, kafka):
        async with _broker_of(cluster.bootstrap_servers) as broker:
            await _make_topics(cluster, broker, topics)
            answers.append(await play(broker))
    return answers[0], answers[1]


def _differences(ours: list[Any], theirs: list[Any]) -> list[Any]:
    assert len(theirs) > 0
    return [(one, other) for one, other in zip_longest(ours, theirs) if one != other][:20]


async def test_message_sets_get_kafkas_answers_and_become_the_same_records(
    ottla_processes: Any, apache_cluster: Any
) -> None:
    async def play(broker: _Broker) -> list[Any]:
        seen: list[Any] = []
        for name, topic, version, data in _requests():
            answer = await broker.produce(f"old-{topic}", version, data)
            seen.append((topic, name, version, *answer))
        for topic in _TOPICS:
            for version in (11, 4, 3, 2, 1, 0):
                for offset, max_bytes in ((0, 1 << 20), (2, 1 << 20), (0, 150), (1, 40)):
                    items = await _read_all(broker, f"old-{topic}", version, offset, max_bytes)
                    seen += [(topic, version, offset, max_bytes, item) for item in items]
        return seen

    topics = {f"old-{name}": configs for name, configs in _TOPICS.items()}
    ours, theirs = await _both(ottla_processes, apache_cluster, topics, play)
    assert _differences(ours, theirs) == []


async def test_batches_of_new_producers_for_old_consumers(
    ottla_processes: Any, apache_cluster: Any
) -> None:
    """Every codec, headers, gaps in what is asked for; zstd comes last, as nobody gets past it."""

    async def play(broker: _Broker) -> list[Any]:
        for codec in (NONE, GZIP, SNAPPY, LZ4, NONE, ZSTD):
            assert (await broker.produce("new-records", 8, _batch(codec)))[0] == 0
        seen: list[Any] = []
        for version in (4, 3, 2, 1, 0):
            for offset in range(18):
                items = await _read_all(broker, "new-records", version, offset)
                seen += [(version, offset, item) for item in items]
        return seen

    ours, theirs = await _both(ottla_processes, apache_cluster, {"new-records": {}}, play)
    assert _differences(ours, theirs) == []


def _transactions(bootstrap_servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": f"id-{topic}"}
    )
    eventually(lambda: producer.list_topics(topic).topics[topic].partitions, bool)
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, b"k", headers={"h": b"1"}, timestamp=_NOW_MS)
        producer.flush(30)
        if number % 3 == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


async def test_transactions_look_plain_to_old_consumers(
    ottla_processes: Any, apache_cluster: Any
) -> None:
    seen = []
    for cluster in (ottla_processes, apache_cluster):
        async with _broker_of(cluster.bootstrap_servers) as broker:
            await _make_topics(cluster, broker, {"old-transactions": {}})
            _transactions(cluster.bootstrap_servers, "old-transactions")
            # At the log's end, before its last marker, they differ (docs/unsupported.md).
            seen.append(
                [
                    (await _read_all(broker, "old-transactions", version, offset))[:-1]
                    for version in (3, 2, 1, 0)
                    for offset in range(11)
                ]
            )
    assert seen[0] == seen[1]
    assert [item[0] for item in seen[0][0]] == [0, 2, 4, 6, 8, 10]
