"""The administration clients of librdkafka, kafka-python and aiokafka: a topic's whole life."""

import aiokafka.admin
import confluent_kafka.admin as confluent
import kafka.admin
import pytest
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import KafkaException, TopicCollection

from tests.support.peers.java_tools import eventually

TIMEOUT_S = 30


def confluent_code(future):
    """The error code that a future ends with."""
    with pytest.raises(KafkaException) as caught:
        future.result(TIMEOUT_S)
    return caught.value.args[0].code()


def test_confluent_kafka(ottla_processes):
    admin = confluent.AdminClient({"bootstrap.servers": ottla_processes.bootstrap_servers})
    name = "by-confluent"
    placed = confluent.NewTopic(
        name, 2, replica_assignment=[[0, 1, 2], [1, 2, 0]], config={"retention.ms": "5000"}
    )
    assert admin.create_topics([placed], validate_only=True)[name].result(TIMEOUT_S) is None
    assert admin.create_topics([placed])[name].result(TIMEOUT_S) is None
    assert confluent_code(admin.create_topics([placed])[name]) == 36

    def described():
        found = admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
        return [[replica.id for replica in partition.replicas] for partition in found.partitions]

    eventually(described, lambda replicas: replicas == [[0, 1, 2], [1, 2, 0]])
    wider = confluent.NewPartitions(name, 3, [[2, 0, 1]])
    assert admin.create_partitions([wider])[name].result(TIMEOUT_S) is None
    eventually(described, lambda replicas: replicas == [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    fewer = confluent.NewPartitions(name, 1)
    assert confluent_code(admin.create_partitions([fewer])[name]) == 37

    topic = confluent.ConfigResource(confluent.ResourceType.TOPIC, name)
    entry = confluent.ConfigEntry(
        "retention.ms",
        "7000",
        incremental_operation=confluent.AlterConfigOpType.SET,
    )
    change = confluent.ConfigResource(
        confluent.ResourceType.TOPIC, name, incremental_configs=[entry]
    )
    (altered,) = admin.incremental_alter_configs([change]).values()
    assert altered.result(TIMEOUT_S) is None
    (future,) = admin.describe_configs([topic]).values()
    configs = future.result(TIMEOUT_S)
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("7000", False)
    assert configs["segment.bytes"].is_default
    broker = confluent.ConfigResource(confluent.ResourceType.BROKER, "1")
    (future,) = admin.describe_configs([broker]).values()
    assert future.result(TIMEOUT_S)["broker.id"].value == "1"

    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert sorted(node.id for node in cluster.nodes) == [0, 1, 2]
    assert cluster.controller.id in (0, 1, 2)
    assert admin.delete_topics([name])[name].result(TIMEOUT_S) is None
    eventually(lambda: admin.list_topics(timeout=TIMEOUT_S).topics, lambda left: name not in left)
    assert confluent_code(admin.delete_topics([name])[name]) == 3


def test_kafka_python(ottla_processes):
    name = "by-kafka-python"
    servers = ottla_processes.bootstrap_servers.split(",")
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    try:
        placed = kafka.admin.NewTopic(
            name,
            -1,
            -1,
            replica_assignments={0: [0, 1, 2], 1: [1, 2, 0]},
            topic_configs={"retention.ms": "5000"},
        )
        admin.create_topics([placed])
        with pytest.raises(kafka.errors.TopicAlreadyExistsError):
            admin.create_topics([placed])

        def described():
            (topic,) = admin.describe_topics([name])
            partitions = sorted(topic["partitions"], key=_partition)
            return [list(_replicas(partition)) for partition in partitions]

        eventually(described, lambda replicas: replicas == [[0, 1, 2], [1, 2, 0]])
        admin.create_partitions({name: kafka.admin.NewPartitions(3, [[2, 0, 1]])})
        eventually(described, lambda replicas: replicas == [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        with pytest.raises(kafka.errors.InvalidPartitionsError):
            admin.create_partitions({name: kafka.admin.NewPartitions(1)})

        resource = kafka.admin.ConfigResourceType.TOPIC
        change = kafka.admin.ConfigResource(resource, name, configs={"retention.ms": "7000"})
        admin.alter_configs([change])
        asked = kafka.admin.ConfigResource(resource, name)
        assert "7000" in repr(admin.describe_configs([asked]))
        admin.delete_topics([name])
        eventually(admin.list_topics, lambda left: name not in left)
        with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
            admin.delete_topics([name])
    finally:
        admin.close()


def _partition(described):
    """The field has one name in kafka-python 2.2 and another one since."""
    return described.get("partition", described.get("partition_index"))


def _replicas(described):
    return described.get("replicas", described.get("replica_nodes"))


async def test_aiokafka(ottla_processes):
    name = "by-aiokafka"
    servers = ottla_processes.bootstrap_servers
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        placed = aiokafka.admin.NewTopic(
            name,
            -1,
            -1,
            replica_assignments={0: [0, 1, 2], 1: [1, 2, 0]},
            topic_configs={"retention.ms": "5000"},
        )
        answer = await admin.create_topics([placed])
        assert [error[:2] for error in answer.topic_errors] == [(name, 0)]
        answer = await admin.create_topics([placed])
        assert [error[:2] for error in answer.topic_errors] == [(name, 36)]
        answer = await admin.create_partitions({name: aiokafka.admin.NewPartitions(3, [[2, 0, 1]])})
        assert [error[:2] for error in answer.topic_errors] == [(name, 0)]

        (topic,) = await admin.describe_topics([name])
        assert topic["topic"] == name

        change = AioResource(AioResourceType.TOPIC, name, configs={"retention.ms": "7000"})
        await admin.alter_configs([change])
        (found,) = await admin.describe_configs([AioResource(AioResourceType.TOPIC, name)])
        ((code, *_, configs),) = found.resources
        values = {config[0]: config[1] for config in configs}
        assert (code, values["retention.ms"]) == (0, "7000")

        answer = await admin.delete_topics([name])
        assert answer.topic_error_codes == [(name, 0)]
        answer = await admin.delete_topics([name])
        assert answer.topic_error_codes == [(name, 3)]
    finally:
        await admin.close()
