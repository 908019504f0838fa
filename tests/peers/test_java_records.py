"""200,000 records from Java's load generator come back whole, to Java and to librdkafka."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.tally import Tally, tally
from tests.support.known_topics import await_known
from tests.support.peers.java_tools import payloads, sent_by_producer_performance

pytestmark = pytest.mark.peers

TOPIC = "perf"
PARTITIONS = 6
RECORDS = 200_000
RECORD_BYTES = 100
PAYLOAD_LINES = 16_384
READ_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def written(java_tool, ottla_processes, tmp_path_factory) -> Tally:
    """ProducerPerformance fills the topic; the tally is computed without reading it."""
    producer = java_tool("kafka-2.8.2", "org.apache.kafka.tools.ProducerPerformance")
    admin = AdminClient({"bootstrap.servers": ottla_processes.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    await_known(ottla_processes.bootstrap_servers, TOPIC, PARTITIONS)
    lines = payloads(PAYLOAD_LINES, RECORD_BYTES)
    payload_file = tmp_path_factory.mktemp("payloads") / "lines"
    payload_file.write_bytes(b"\n".join(lines) + b"\n")
    run = producer(
        *("--topic", TOPIC, "--num-records", str(RECORDS), "--throughput", "-1"),
        *("--payload-file", str(payload_file), "--producer-props", "acks=all"),
        f"bootstrap.servers={ottla_processes.bootstrap_servers}",
    )
    assert run.returncode == 0, run.stderr
    assert f"{RECORDS} records sent" in run.stdout.splitlines()[-1], run.stdout + run.stderr
    assert "Exception" not in run.stdout, "the producer counts a failed record as sent"
    return tally(sent_by_producer_performance(lines, RECORDS))


@pytest.mark.parametrize(
    ("jars", "main_class"),
    [
        pytest.param("kafka-2.8.2", "kafka.tools.ConsoleConsumer", id="2.8.2"),
        pytest.param("kafka-4.1", "org.apache.kafka.tools.consumer.ConsoleConsumer", id="4.1"),
    ],
)
def test_console_consumer_reads_all_in_a_group(
    java_tool, ottla_processes, written, jars, main_class
):
    group = f"console-{jars}"
    consumer = java_tool(jars, main_class)
    # The time-out is longer than a session, so it only ends a read that is stuck.
    run = consumer(
        *("--bootstrap-server", ottla_processes.bootstrap_servers, "--topic", TOPIC),
        *("--group", group, "--from-beginning"),
        *("--max-messages", str(RECORDS), "--timeout-ms", "30000"),
    )
    assert run.returncode == 0, run.stderr
    assert tally(line.encode() for line in run.stdout.splitlines()) == written
    assert committed(ottla_processes, group) == RECORDS


def test_two_librdkafka_members_share_the_topic(ottla_processes, written):
    group = "confluent"
    members = [group_member(ottla_processes, group) for _ in range(2)]
    reading = Reading()
    try:
        deadline = time.monotonic() + READ_TIMEOUT_S
        while not shared_and_read(members):
            assert time.monotonic() < deadline, [member.assignment() for member in members]
            for member in members:
                reading.take(member.consume(5_000, timeout=0.1))
        assert reading.total == written
        for member in members:
            member.commit(asynchronous=False)
    finally:
        for member in members:
            member.close()
    assert committed(ottla_processes, group) == RECORDS


class Reading:
    """What a group read: each offset counted once, none left out."""

    def __init__(self):
        self.total = Tally(0, 0)
        self._next = [0] * PARTITIONS

    def take(self, messages):
        fresh = []
        for message in messages:
            assert message.error() is None, message.error()
            expected = self._next[message.partition()]
            assert message.offset() <= expected, "an offset was passed over"
            # A rebalance before the first commit hands a partition over from its beginning.
            if message.offset() == expected:
                self._next[message.partition()] = expected + 1
                fresh.append(message.value())
        self.total += tally(fresh)


def shared_and_read(members):
    """Both members hold partitions, all of them between them, and stand at their ends."""
    held = [member.assignment() for member in members]
    if sorted(part.partition for share in held for part in share) != list(range(PARTITIONS)):
        return False
    places = [member.position(share) for member, share in zip(members, held, strict=True) if share]
    return (
        len(places) == len(members)
        and sum(max(part.offset, 0) for share in places for part in share) == RECORDS
    )


def group_member(cluster, group):
    member = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([TOPIC])
    return member


def committed(cluster, group):
    reader = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        parts = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        return sum(max(part.offset, 0) for part in reader.committed(parts, timeout=30))
    finally:
        reader.close()
