"""Transactions as clients see them: commit, abort, fencing, offsets, Java's copier and tools."""

import asyncio
import json
import os
import re

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.known_topics import await_known
from tests.support.peers.java_tools import eventually

TIMEOUT_S = 60
PARTITIONS = 3


def make_topic(cluster, name, partitions=PARTITIONS):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result()
    await_known(cluster.bootstrap_servers, name, partitions)


def producer_of(cluster, transactional_id, **settings):
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": transactional_id,
            **settings,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def read_all(cluster, topic, isolation="read_committed", partitions=PARTITIONS):
    """Every record up to the end that the isolation level shows."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, at_end = [], set()
    try:
        while len(at_end) < partitions:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no answer"
            if message.error():
                at_end.add(message.partition())
            else:
                found.append(message.value().decode())
    finally:
        consumer.close()
    return found


def test_committed_transactions_show_and_aborted_ones_do_not(ottla_processes):
    make_topic(ottla_processes, "txn-outcomes")
    producer = producer_of(ottla_processes, "outcomes")
    expected = []
    for number in range(20):
        producer.begin_transaction()
        values = [f"{number}-{each}" for each in range(9)]
        for each, value in enumerate(values):
            producer.produce("txn-outcomes", value, partition=each % PARTITIONS)
        producer.flush(TIMEOUT_S)
        if number % 3:
            producer.commit_transaction(TIMEOUT_S)
            expected += values
        else:
            producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("txn-outcomes", "open", partition=0)
    producer.flush(TIMEOUT_S)
    assert sorted(read_all(ottla_processes, "txn-outcomes")) == sorted(expected)
    everything = read_all(ottla_processes, "txn-outcomes", "read_uncommitted")
    assert len(everything) == 20 * 9 + 1
    producer.commit_transaction(TIMEOUT_S)
    assert "open" in read_all(ottla_processes, "txn-outcomes")


def test_a_second_producer_fences_the_first_and_aborts_what_it_left_open(ottla_processes):
    make_topic(ottla_processes, "txn-fencing")
    zombie = producer_of(ottla_processes, "fenced")
    zombie.begin_transaction()
    zombie.produce("txn-fencing", "zombie", partition=0)
    zombie.flush(TIMEOUT_S)
    heir = producer_of(ottla_processes, "fenced")
    with pytest.raises(KafkaException) as raised:
        zombie.produce("txn-fencing", "zombie again", partition=0)
        zombie.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()
    heir.begin_transaction()
    heir.produce("txn-fencing", "heir", partition=0)
    heir.commit_transaction(TIMEOUT_S)
    assert read_all(ottla_processes, "txn-fencing") == ["heir"]


def test_a_transaction_past_its_time_out_is_aborted(ottla_processes):
    make_topic(ottla_processes, "txn-late")
    late = producer_of(ottla_processes, "late", **{"transaction.timeout.ms": 2000})
    late.begin_transaction()
    late.produce("txn-late", "late", partition=0)
    late.flush(TIMEOUT_S)
    other = producer_of(ottla_processes, "in-time")
    other.begin_transaction()
    other.produce("txn-late", "in time", partition=0)
    other.commit_transaction(TIMEOUT_S)
    assert read_all(ottla_processes, "txn-late") == [], "held back by the open transaction"
    eventually(lambda: read_all(ottla_processes, "txn-late"), lambda found: found == ["in time"])
    with pytest.raises(KafkaException):
        late.commit_transaction(TIMEOUT_S)


def test_offsets_are_part_of_the_transaction(ottla_processes):
    make_topic(ottla_processes, "txn-in")
    make_topic(ottla_processes, "txn-out")
    source = producer_of(ottla_processes, "source")
    source.begin_transaction()
    for number in range(6):
        source.produce("txn-in", str(number), partition=0)
    source.commit_transaction(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": ottla_processes.bootstrap_servers,
            "group.id": "txn-group",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["txn-in"])
    part = TopicPartition("txn-in", 0)
    copier = producer_of(ottla_processes, "copier")
    try:
        for commit in (False, True):
            message = consumer.poll(TIMEOUT_S)
            copier.begin_transaction()
            copier.produce("txn-out", message.value(), partition=0)
            offsets = [TopicPartition("txn-in", 0, message.offset() + 1)]
            metadata = consumer.consumer_group_metadata()
            copier.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
            if commit:
                copier.commit_transaction(TIMEOUT_S)
            else:
                copier.abort_transaction(TIMEOUT_S)
            (committed,) = consumer.committed([part], TIMEOUT_S)
            assert committed.offset == (message.offset() + 1 if commit else -1001)
    finally:
        consumer.close()
    assert read_all(ottla_processes, "txn-out") == ["1"]


async def test_aiokafka(ottla_processes):
    make_topic(ottla_processes, "txn-aiokafka")
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=ottla_processes.bootstrap_servers, transactional_id="aiokafka"
    )
    await producer.start()
    try:
        async with producer.transaction():
            for number in range(30):
                await producer.send("txn-aiokafka", b"%d" % number)
        with pytest.raises(ValueError, match="changed my mind"):
            async with producer.transaction():
                await producer.send_and_wait("txn-aiokafka", b"aborted")
                raise ValueError("changed my mind")
        await producer.begin_transaction()
        await producer.send_and_wait("txn-aiokafka", b"last")
        part = aiokafka.TopicPartition("txn-aiokafka", 0)
        await producer.send_offsets_to_transaction({part: 7}, "aiokafka-group")
        await producer.commit_transaction()
    finally:
        await producer.stop()
    found = await asyncio.to_thread(read_all, ottla_processes, "txn-aiokafka")
    assert sorted(found) == sorted([*map(str, range(30)), "last"])


def test_kafka_python(ottla_processes):
    make_topic(ottla_processes, "txn-kafka-python")
    producer = kafka.KafkaProducer(
        bootstrap_servers=ottla_processes.bootstrap_servers.split(","),
        transactional_id="kafka-python",
    )
    try:
        producer.init_transactions()
        for outcome in ("committed", "aborted", "committed"):
            producer.begin_transaction()
            for number in range(10):
                producer.send("txn-kafka-python", f"{outcome}-{number}".encode())
            producer.flush(TIMEOUT_S)
            if outcome == "committed":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(10)
    # Its commit does not wait for the markers.
    found = eventually(
        lambda: read_all(ottla_processes, "txn-kafka-python"), lambda found: len(found) == 20
    )
    assert all(value.startswith("committed") for value in found)


@pytest.mark.parametrize("jars", ["kafka-2.8.2", "kafka-4.1"])
def test_javas_copier_with_random_aborts(ottla_processes, java_tool, jars):
    source, target = f"copy-from-{jars}", f"copy-to-{jars}"
    make_topic(ottla_processes, source, 1)
    make_topic(ottla_processes, target, PARTITIONS)
    filler = Producer({"bootstrap.servers": ottla_processes.bootstrap_servers})
    for number in range(1000):
        filler.produce(source, str(number))
    assert filler.flush(TIMEOUT_S) == 0
    copier = java_tool(jars, "org.apache.kafka.tools.TransactionalMessageCopier")
    copied = copier(
        *("--broker-list", ottla_processes.bootstrap_servers),
        *("--transactional-id", f"copier-{jars}"),
        *("--consumer-group", f"copier-{jars}"),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--max-messages", "1000", "--transaction-size", "100", "--enable-random-aborts"),
    )
    assert copied.returncode == 0, copied.stderr
    reports = [json.loads(line) for line in copied.stdout.splitlines() if line.startswith("{")]
    assert reports[-1]["remaining"] == 0
    assert sorted(read_all(ottla_processes, target), key=int) == [str(n) for n in range(1000)]


@pytest.mark.skipif(
    os.environ.get("OTTLA_JUDGED", "ottla") != "ottla",
    reason="Kafka 2.8.2 has none of the APIs of KIP-664",
)
def test_javas_transactions_tool(ottla_processes, java_tool):
    make_topic(ottla_processes, "txn-tool")
    producer = producer_of(ottla_processes, "tool-id")
    producer.begin_transaction()
    producer.produce("txn-tool", "x", partition=1)
    producer.flush(TIMEOUT_S)
    run = java_tool("kafka-4.1", "org.apache.kafka.tools.TransactionsCommand")
    at = ("--bootstrap-server", ottla_processes.bootstrap_servers)
    listed = run(*at, "list")
    assert re.search(r"^tool-id\s+\d+\s+\d+\s+Ongoing", listed.stdout, re.M), listed
    described = run(*at, "describe", "--transactional-id", "tool-id")
    assert re.search(r"tool-id.*Ongoing.*txn-tool-1", described.stdout), described
    topic = ("--topic", "txn-tool", "--partition", "1")
    producers = run(*at, "describe-producers", *topic)
    row = producers.stdout.splitlines()[1].split()
    assert row[-1] == "0", f"the open transaction starts at offset 0: {producers}"
    aborted = run(*at, "abort", *topic, "--start-offset", "0")
    assert aborted.returncode == 0, aborted
    other = producer_of(ottla_processes, "not-held-back")
    other.begin_transaction()
    other.produce("txn-tool", "y", partition=1)
    other.commit_transaction(TIMEOUT_S)
    eventually(lambda: read_all(ottla_processes, "txn-tool"), lambda found: found == ["y"])
