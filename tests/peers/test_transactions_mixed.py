"""One Apache Kafka 2.8.2 broker and one of Ottla's: either coordinates, either gets markers, and
Ottla takes over the ids that Kafka coordinated."""

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.cluster import free_ports
from ottla.testing.java import HOST, ApacheKafka, accepts, brokers_known
from tests.support.peers.java_tools import eventually

PARTITIONS = 4
TIMEOUT_S = 60
OTTLA_ID = 5
INTERNAL_TOPICS = {
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture
def mixed(apache_zookeeper, java_tool, tmp_path):
    """Gives Kafka's cluster object and the bootstrap servers of both brokers."""
    java_tool("kafka-2.8.2", "kafka.Kafka")  # skips where the jars are missing
    zookeeper = f"{apache_zookeeper.address}/mixed-transactions"
    with ApacheKafka(zookeeper, overrides=INTERNAL_TOPICS) as kafka:
        port = free_ports(1)
        settings = {
            "broker.id": str(OTTLA_ID),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(tmp_path / "data"),
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": "6000",
            **INTERNAL_TOPICS,
        }
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [sys.executable, "-m", "ottla", "broker", "--config", str(config)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as broker:
            try:
                eventually(lambda: accepts(port) and brokers_known(port), lambda known: known == 2)
                kafka_port = int(kafka.bootstrap_servers.rsplit(":", 1)[1])
                eventually(lambda: brokers_known(kafka_port), lambda known: known == 2)
                yield kafka, f"{kafka.bootstrap_servers},{HOST}:{port}"
            finally:
                broker.terminate()


def leaders_of(admin, topic):
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: state.leader for number, state in found.items()}


def run_transactions(producers, round_number):
    """Two transactions each, the second one aborted; the values that are to show."""
    expected = []
    for number, producer in enumerate(producers):
        for outcome in ("commit", "abort"):
            producer.begin_transaction()
            for each in range(2 * PARTITIONS):
                value = f"{round_number}-{number}-{outcome}-{each}"
                producer.produce("t", value, partition=each % PARTITIONS)
                expected += [value] if outcome == "commit" else []
            producer.flush(TIMEOUT_S)
            if outcome == "commit":
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
    return expected


def read_committed(servers):
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    found, at_end = [], set()
    try:
        while len(at_end) < PARTITIONS:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "no answer"
            if message.error():
                at_end.add(message.partition())
            else:
                found.append(message.value().decode())
        return sorted(found)
    finally:
        consumer.close()


def test_transactions_across_both_brokers(mixed):
    kafka, servers = mixed
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("t", PARTITIONS, 2)])["t"].result()
    eventually(lambda: set(leaders_of(admin, "t").values()), lambda found: found == {0, OTTLA_ID})
    producers = [
        Producer({"bootstrap.servers": servers, "transactional.id": f"mixed-{number}"})
        for number in range(6)
    ]
    for producer in producers:
        producer.init_transactions(TIMEOUT_S)
    assert set(leaders_of(admin, "__transaction_state").values()) == {0, OTTLA_ID}
    expected = run_transactions(producers, 1)
    eventually(lambda: read_committed(servers), lambda found: found == sorted(expected))
    kafka.kill(0)
    expected += run_transactions(producers, 2)
    eventually(lambda: read_committed(servers), lambda found: found == sorted(expected))
