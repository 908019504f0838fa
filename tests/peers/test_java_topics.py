"""kafka-topics of Apache Kafka 2.8.2 and 4.1 make, show and end a topic."""

import re

import pytest
from java_tools import eventually, kazoo

pytestmark = pytest.mark.peers

TOPIC_COMMANDS = [
    pytest.param("kafka-2.8.2", "kafka.admin.TopicCommand", id="kafka-topics-2.8.2"),
    pytest.param("kafka-4.1", "org.apache.kafka.tools.TopicCommand", id="kafka-topics-4.1"),
]
PARTITION_LINE = re.compile(
    r"\tTopic: (?P<topic>\S+)\tPartition: (?P<partition>\d+)\tLeader: (?P<leader>\S+)"
    r"\tReplicas: (?P<replicas>[\d,]+)\tIsr: (?P<isr>[\d,]*)"
)


@pytest.fixture(scope="module")
def topics(java_tool, ottla_processes):
    def run(jars, main_class, *arguments):
        tool = java_tool(jars, main_class)
        return tool("--bootstrap-server", ottla_processes.bootstrap_servers, *arguments)

    return run


@pytest.mark.parametrize(("jars", "main_class"), TOPIC_COMMANDS)
def test_create_describe_and_delete(topics, ottla_processes, jars, main_class):
    name = f"orders-{jars.replace('.', '-')}"

    def command(*arguments):
        return topics(jars, main_class, *arguments)

    created = command(
        *("--create", "--topic", name, "--partitions", "4", "--replication-factor", "3"),
        *("--config", "retention.ms=3600000"),
    )
    assert (created.returncode, created.stdout) == (0, f"Created topic {name}.\n"), created.stderr

    described = eventually(
        lambda: command("--describe", "--topic", name),
        lambda answer: len(PARTITION_LINE.findall(answer.stdout)) == 4,
    )
    header, *lines = described.stdout.splitlines()
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 4\tReplicationFactor: 3"
        r"\tConfigs: (\S+,)?retention\.ms=3600000(,\S+)?",
        header,
    )
    found = [PARTITION_LINE.match(line) for line in lines]
    assert [int(line["partition"]) for line in found] == [0, 1, 2, 3]
    for line in found:
        replicas = line["replicas"].split(",")
        assert sorted(replicas) == ["0", "1", "2"]
        assert line["leader"] == replicas[0], "a new topic is led by its preferred replicas"
        assert line["isr"] == line["replicas"]
    assert name in command("--list").stdout.splitlines()

    with kazoo(ottla_processes.zookeeper) as zookeeper:
        assert zookeeper.exists(f"/brokers/topics/{name}/partitions/3/state")
        deleted = command("--delete", "--topic", name)
        assert (deleted.returncode, deleted.stdout) == (0, ""), deleted.stderr
        eventually(lambda: zookeeper.exists(f"/brokers/topics/{name}"), lambda stat: stat is None)
        eventually(
            lambda: zookeeper.get_children("/admin/delete_topics"), lambda left: name not in left
        )
    assert name not in command("--list").stdout.splitlines()


@pytest.mark.parametrize(("jars", "main_class"), TOPIC_COMMANDS)
def test_refusals_read_as_from_kafka(topics, jars, main_class):
    name = f"twice-{jars.replace('.', '-')}"
    create = ("--create", "--topic", name, "--partitions", "1", "--replication-factor", "1")
    assert topics(jars, main_class, *create).returncode == 0
    again = topics(jars, main_class, *create)
    assert again.returncode == 1
    assert f"Topic '{name}' already exists." in again.stdout
    assert topics(jars, main_class, *create, "--if-not-exists").returncode == 0

    wide = topics(
        *(jars, main_class, "--create", "--topic", f"{name}-wide"),
        *("--partitions", "1", "--replication-factor", "4"),
    )
    assert wide.returncode == 1
    assert re.search(r"[Rr]eplication factor: 4 larger than available brokers: 3", wide.stdout)

    absent = topics(jars, main_class, "--describe", "--topic", f"{name}-absent")
    assert absent.returncode == 1
    assert f"Topic '{name}-absent' does not exist as expected" in absent.stdout
