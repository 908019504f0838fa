"""One data folder, opened by Ottla and by Apache Kafka 2.8.2 in turn; Kafka's DumpLogSegments reads
what Ottla wrote, compacted segments and indexes included."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.config.broker import BrokerConfig
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.testing.java import HOST, ApacheKafka, ApacheZooKeeper, free_port
from tests.support.peers import compaction_twins
from tests.support.peers.java_tools import Tool, eventually, need_jars

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = (*CODECS, "compacted")
COMPLAINTS = re.compile(
    r"mismatch|Mismatches|not found|out of order|Exception|corrupt|isvalid: false", re.IGNORECASE
)


@contextmanager
def ottla_broker(zookeeper: str, data: Path) -> Iterator[str]:
    """A broker in a thread; stopped in order, so that the folder is clean afterwards."""
    port = free_port()
    config = BrokerConfig.from_properties(
        {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(data),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "log.cleaner.backoff.ms": "50",
            "controlled.shutdown.enable": "false",
        }
    )
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    node = Node(config, system_runtime())
    try:
        asyncio.run_coroutine_threadsafe(node.start(), loop).result(30)
        yield f"{HOST}:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(node.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def apache_broker(zookeeper: str, data: Path) -> Iterator[str]:
    """Killed at the end: whoever opens the folder next has to recover it."""
    overrides = {
        "log.dirs": str(data),
        "offsets.topic.num.partitions": "1",
        "log.cleaner.backoff.ms": "100",
        # The next broker waits for the end of this session.
        "zookeeper.session.timeout.ms": "3000",
    }
    with ApacheKafka(zookeeper, overrides=overrides) as kafka:
        yield kafka.bootstrap_servers


def create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(codec, 1, 1, config={"segment.bytes": "60000"}) for codec in CODECS]
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "20000",
        "min.cleanable.dirty.ratio": "0.01",
    }
    topics.append(NewTopic("compacted", 1, 1, config=compacted))
    for made in admin.create_topics(topics, operation_timeout=10).values():
        made.result(15)
    compaction_twins.create(admin)


def write(
    bootstrap: str, topic: str, numbers: range, codec: str = "none", flush_every: int = 10_000
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 100,
        }
    )
    failures: list[object] = []
    for number in numbers:
        key = b"key-%d" % (number % 50)
        value = b"%d" % number if number % 7 else None
        producer.produce(
            topic,
            value,
            key,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0 and failures == []


def read_all(bootstrap: str) -> dict[str, list[tuple[int, bytes, bytes | None]]]:
    """Every record of every topic, as soon as the broker leads them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def leaders() -> list[int]:
        known = admin.list_topics(timeout=15).topics
        return [known[topic].partitions[0].leader for topic in TOPICS if topic in known]

    eventually(leaders, lambda found: found == [0] * len(TOPICS))
    return {topic: read(bootstrap, topic) for topic in TOPICS}


def read(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of every record."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=15)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while not found or found[-1][0] < end - 1:
            message = consumer.poll(15)
            assert message is not None and message.error() is None, (topic, message)
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    return found


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "committer"})
    consumer.commit(offsets=[TopicPartition("none", 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "committer"})
    try:
        return int(consumer.committed([TopicPartition("none", 0)], timeout=20)[0].offset)
    finally:
        consumer.close()


def await_compaction(data: Path) -> None:
    checkpoint = data / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if checkpoint.exists():
            entries = dict(re.findall(r"^(\S+) 0 (\d+)$", checkpoint.read_text(), re.MULTILINE))
            if int(entries.get("compacted", 0)) > 3000:
                return
        time.sleep(0.05)
    pytest.fail(f"no compaction: {sorted(path.name for path in data.iterdir())}")


def dump(tool: Tool, data: Path) -> str:
    """One run over all files: the start of the JVM is what takes time."""
    files = sorted(str(path) for path in data.glob("*-0/[0-9]*.*"))
    assert {Path(name).suffix for name in files} >= {".log", ".index", ".timeindex", ".snapshot"}
    result = tool("--files", ",".join(files), "--deep-iteration")
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_folder_goes_from_ottla_to_kafka_and_back(
    apache_zookeeper: ApacheZooKeeper,
    java_tool: Callable[[str, str], Tool],
    folder: Path,
) -> None:
    need_jars("kafka-2.8.2")
    zookeeper = f"{apache_zookeeper.address}/formats"
    with ottla_broker(zookeeper, folder) as bootstrap:
        create(bootstrap)
        for codec in CODECS:
            write(bootstrap, codec, range(3000), codec)
        write(bootstrap, "compacted", range(4000), "lz4", flush_every=200)
        compaction_twins.fill(bootstrap)
        commit(bootstrap, 77)
        await_compaction(folder)
        expected = read_all(bootstrap)
    assert len(expected["none"]) == 3000 and len(expected["compacted"]) < 2000
    assert (folder / ".kafka_cleanshutdown").exists()

    # DumpLogSegments has nothing to complain about, indexes and snapshots included.
    tool = java_tool("kafka-2.8.2", "kafka.tools.DumpLogSegments")
    text = dump(tool, folder)
    assert not COMPLAINTS.search(text), COMPLAINTS.findall(text)
    assert text.count("| offset: ") >= sum(len(found) for found in expected.values())
    gaps = re.findall(r"Non-consecutive offsets in (\S+)", text)
    assert all("/compacted-0/" in name or "__consumer_offsets" in name for name in gaps)

    compaction_twins.prepare(folder)
    before = compaction_twins.contents(folder)
    compacted = compaction_twins.compacted_by_ottla(folder, folder.with_name("copy"))
    assert len(compacted) < len(before)
    with apache_broker(zookeeper, folder) as bootstrap:
        assert read_all(bootstrap) == expected
        assert compaction_twins.compacted_by_kafka(bootstrap, folder) == compacted
        assert committed(bootstrap) == 77
        for codec in CODECS:
            write(bootstrap, codec, range(3000, 3500), codec)
        commit(bootstrap, 99)
        expected = read_all(bootstrap)

    assert not (folder / ".kafka_cleanshutdown").exists()  # Kafka was killed
    with ottla_broker(zookeeper, folder) as bootstrap:
        assert read_all(bootstrap) == expected
        assert committed(bootstrap) == 99
        write(bootstrap, "none", range(3500, 3600))
        assert [offset for offset, _, _ in read(bootstrap, "none")] == list(range(3600))
