"""Java's consumers go on after a resize where they were: neither earlier nor later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.admin.client import Admin
from ottla.runtime import system_runtime
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import run_tool
from tests.support.peers.java_tools import need_jars

pytestmark = [pytest.mark.peers, pytest.mark.timeout(180)]

OLD, NEW, FIRST, LATER = 4, 3, 200, 20
KAFKA_4 = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def produce(servers: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for value in values:
        producer.produce(topic, str(value), key=f"k{value % 17}")
    assert producer.flush(30) == 0


def read_with_java(jars: str, tool: str, servers: str, topic: str, count: int) -> list[int]:
    """By one member of a group, which commits at its end."""
    done = run_tool(
        jars, tool, "--bootstrap-server", servers, "--topic", topic, "--group", f"{topic}-java",
        "--max-messages", str(count), "--timeout-ms", "30000",
        "--consumer-property", "auto.offset.reset=earliest",
    )  # fmt: skip
    return sorted(int(line) for line in done.stdout.split() if line.isdigit())


def copy(servers: str, topic: str, shadow: str) -> dict[int, int]:
    """As `ottla resize` does it, with keys by murmur2; where the shadow's partitions end."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "copies-by-hand"})
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for partition in range(OLD):
        _, end = consumer.get_watermark_offsets(Place(topic, partition), timeout=10)
        consumer.assign([Place(topic, partition, 0)])
        left = end
        while left:
            for message in consumer.consume(left, timeout=5):
                assert message.error() is None, message.error()
                producer.produce(shadow, message.value(), key=message.key())
                left -= 1
    assert producer.flush(30) == 0
    ends = {p: consumer.get_watermark_offsets(Place(shadow, p), timeout=10)[1] for p in range(NEW)}
    consumer.close()
    return ends


async def resize(servers: str, topic: str, group: str) -> None:
    async with Admin.connect(system_runtime(), servers) as admin:
        begun = await admin.begin_resize(topic, NEW, partitioner="murmur2")
        fence = await admin.fence_resize(topic, begun.topic_id)
        ends = await asyncio.to_thread(copy, servers, topic, begun.shadow)
        await admin.finish_resize(topic, begun, fence, {group: ends}, guards_keys=True)


@pytest.mark.parametrize(
    ("jars", "tool"),
    [
        pytest.param("kafka-2.8.2", "kafka.tools.ConsoleConsumer", id="2.8.2"),
        pytest.param("kafka-4.1", KAFKA_4, id="4.1"),
    ],
)
def test_a_group_goes_on(own_ottla: ProcessCluster, jars: str, tool: str) -> None:
    need_jars(jars)
    servers, topic = own_ottla.bootstrap_servers, f"resized-{jars}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, OLD, 3)])[topic].result(30)
    produce(servers, topic, range(FIRST))
    assert read_with_java(jars, tool, servers, topic, FIRST) == list(range(FIRST))
    asyncio.run(resize(servers, topic, f"{topic}-java"))
    produce(servers, topic, range(FIRST, FIRST + LATER))
    found = read_with_java(jars, tool, servers, topic, LATER)
    assert found == list(range(FIRST, FIRST + LATER))


@pytest.fixture(scope="module")
def own_ottla() -> Iterator[ProcessCluster]:
    with ProcessCluster(brokers=3) as cluster:
        yield cluster
