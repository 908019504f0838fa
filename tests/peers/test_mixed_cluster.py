"""Ottla and Apache Kafka 2.8.2 in one cluster, each of them as the controller."""

import asyncio
import json

import pytest
from confluent_kafka import Consumer, Producer

from ottla.client.admin.client import Admin
from ottla.client.admin.types import (
    ConfigEdit,
    ConfigResource,
    NewPartitions,
    NewTopic,
    raise_first_error,
)
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.peers.java_tools import eventually, kazoo
from tests.support.peers.mixed_cluster import KAFKA_ID, OTTLA_IDS, MixedCluster, controller

pytestmark = [pytest.mark.peers, pytest.mark.timeout(280)]

ALL = (*OTTLA_IDS, KAFKA_ID)
# Every broker leads, and every broker follows every other.
SPREAD = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1], 3: [0, 2, 1], 4: [1, 0, 2], 5: [2, 1, 0]}
RECORDS = 600
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def mixed(apache_zookeeper, tmp_path_factory):
    chroot = f"{apache_zookeeper.address}/mixed"
    with MixedCluster(chroot, tmp_path_factory.mktemp("mixed")) as cluster:
        yield cluster


@pytest.fixture
def zookeeper(mixed):
    with kazoo(mixed.zookeeper) as client:
        yield client


def administer(mixed, work):
    """Runs `work(admin)` with a session of its own."""

    async def run():
        async with Admin.connect(system_runtime(), mixed.bootstrap_servers) as admin:
            return await work(admin)

    return asyncio.run(run())


def state(zookeeper, topic, partition):
    return json.loads(zookeeper.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0])


def await_in_sync(zookeeper, topic, partitions):
    for partition in partitions:
        eventually(
            lambda part=partition: state(zookeeper, topic, part),
            lambda found: sorted(found["isr"]) == list(ALL),
        )


def produce(mixed, topic, partitions, tag):
    failures = []
    # Idempotent: an election under way makes a producer send again.
    producer = Producer({"bootstrap.servers": mixed.bootstrap_servers, "enable.idempotence": True})
    sent = {f"{tag}-{number}".encode() for number in range(RECORDS)}
    for number, value in enumerate(sorted(sent)):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []
    return sent


def consume(mixed, topic, count):
    """Everything in the topic, through a group whose coordinator is any of the brokers."""
    consumer = Consumer(
        {
            "bootstrap.servers": mixed.bootstrap_servers,
            "group.id": f"readers-of-{topic}-{count}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    values = []
    try:
        consumer.subscribe([topic])
        eventually(
            lambda: values.extend(record.value() for record in consumer.consume(1_000, 0.5)),
            lambda _: len(values) >= count,
        )
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert len(values) == count
    return set(values)


async def described_by(admin, broker_id, topic):
    """The topic as this very broker describes it."""
    request = m.MetadataRequest(
        topics=[m.MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
    )
    answer = await admin.cluster.send_to_broker(broker_id, request, min_version=9, max_version=10)
    (found,) = answer.topics
    partitions = {
        p.partition_index: (p.error_code, p.leader_id, p.replica_nodes, sorted(p.isr_nodes))
        for p in found.partitions
    }
    return answer.controller_id, found.error_code, partitions


def await_described(mixed, topic, good):
    """The news of a change reaches the brokers one after the other."""
    for broker_id in ALL:
        eventually(
            lambda broker=broker_id: administer(
                mixed, lambda admin: described_by(admin, broker, topic)
            ),
            good,
        )


def life_of_a_topic(mixed, zookeeper, topic, in_office):
    """Created, written, expanded, changed, moved, read and deleted, over all three brokers."""

    def call(work):
        return administer(mixed, work)

    created = call(lambda admin: admin.create_topics([NewTopic(topic, assignments=SPREAD)]))
    raise_first_error(created)
    expected = {p: (0, ids[0], ids, list(ALL)) for p, ids in SPREAD.items()}
    await_described(mixed, topic, lambda found: found == (in_office, 0, expected))
    sent = produce(mixed, topic, len(SPREAD), "first")

    grown = call(
        lambda admin: admin.create_partitions({topic: NewPartitions(8, [[2, 1, 0], [1, 0, 2]])})
    )
    raise_first_error(grown)
    await_in_sync(zookeeper, topic, range(8))
    await_described(mixed, topic, lambda found: len(found[2]) == 8)
    sent |= produce(mixed, topic, 8, "second")

    resource = ConfigResource.topic(topic)
    edits = {resource: [ConfigEdit("max.message.bytes", "500000")]}
    raise_first_error(call(lambda admin: admin.incremental_alter_configs(edits)))
    move(mixed, zookeeper, topic)
    sent |= produce(mixed, topic, 8, "third")
    assert consume(mixed, topic, len(sent)) == sent

    assert call(lambda admin: admin.delete_topics([topic])) == {topic: None}
    eventually(lambda: zookeeper.exists(f"/brokers/topics/{topic}"), lambda stat: stat is None)
    eventually(lambda: zookeeper.get_children("/admin/delete_topics"), lambda left: left == [])
    eventually(lambda: mixed.folders(topic), lambda left: left == [])


def move(mixed, zookeeper, topic):
    """A partition leaves Kafka for Ottla alone and comes back to all, with what is in it."""
    part, node = TopicPartition(topic, 2), f"/brokers/topics/{topic}"
    for target in ([0], [2, 0, 1]):
        call = administer(mixed, lambda admin, to=target: admin.alter_reassignments({part: to}))
        raise_first_error(call)
        eventually(
            lambda: json.loads(zookeeper.get(node)[0]),
            lambda found, to=target: (
                found["partitions"]["2"] == to and not found["adding_replicas"]
            ),
        )
        eventually(
            lambda: sorted(state(zookeeper, topic, 2)["isr"]),
            lambda isr, to=target: isr == sorted(to),
        )


def test_with_ottla_as_controller(mixed, zookeeper):
    in_office = controller(zookeeper)
    assert in_office in OTTLA_IDS
    life_of_a_topic(mixed, zookeeper, "under-ottla", in_office)


def test_kafka_takes_over_and_hands_back(mixed, zookeeper):
    """What one controller made, the other one keeps, with the brokers of both kinds."""
    raise_first_error(
        administer(mixed, lambda admin: admin.create_topics([NewTopic("kept", assignments=SPREAD)]))
    )
    await_described(mixed, "kept", lambda found: len(found[2]) == len(SPREAD))
    sent = produce(mixed, "kept", len(SPREAD), "before")
    epoch = int(zookeeper.get("/controller_epoch")[0])
    stopped = controller(zookeeper)
    mixed.ottla.stop(stopped)
    other = 1 - stopped
    if eventually(lambda: controller(zookeeper), lambda found: found >= 0) != KAFKA_ID:
        # Kafka shall have the office: the other one sleeps through the election.
        with mixed.paused(other):
            zookeeper.delete("/controller")
            eventually(lambda: controller(zookeeper), lambda found: found == KAFKA_ID)
    assert int(zookeeper.get("/controller_epoch")[0]) > epoch
    for partition in SPREAD:
        found = eventually(
            lambda part=partition: state(zookeeper, "kept", part),
            lambda found: stopped not in found["isr"],
        )
        assert found["leader"] in (other, KAFKA_ID)
    sent |= produce(mixed, "kept", len(SPREAD), "between")

    mixed.ottla.restart(stopped)
    await_in_sync(zookeeper, "kept", SPREAD)
    assert controller(zookeeper) == KAFKA_ID
    assert consume(mixed, "kept", len(sent)) == sent
    life_of_a_topic(mixed, zookeeper, "under-kafka", KAFKA_ID)

    # And back, while Kafka's broker sleeps: it wakes up as a controller of the past.
    with mixed.paused(KAFKA_ID):
        zookeeper.delete("/controller")
        eventually(lambda: controller(zookeeper), lambda found: found in OTTLA_IDS)
    assert administer(mixed, lambda admin: admin.delete_topics(["kept"])) == {"kept": None}
    eventually(lambda: zookeeper.exists("/brokers/topics/kept"), lambda stat: stat is None)
    assert controller(zookeeper) in OTTLA_IDS
