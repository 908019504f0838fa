"""kafka-topics and kafka-configs of Kafka 2.8.2 and 4.1 on a cluster of processes.

What 2.8.2's tools print is compared with a run on Apache Kafka elsewhere; here the tools of both
ages do what they are asked, and the znodes show it.
"""

import json
import re

import pytest

from tests.support.peers.java_tools import ToolSession, eventually, kazoo, need_jars

pytestmark = pytest.mark.peers

TOPIC_COMMANDS = {
    "kafka-2.8.2": "kafka.admin.TopicCommand",
    "kafka-4.1": "org.apache.kafka.tools.TopicCommand",
}
PARTITION_LINE = re.compile(
    r"\tTopic: (?P<topic>\S+)\s*\tPartition: (?P<partition>\d+)\s*\tLeader: (?P<leader>\S+)"
    r"\s*\tReplicas: (?P<replicas>[\d,]+)\s*\tIsr: (?P<isr>[\d,]*)"
)


class Tools:
    """Kafka's tools of one release, pointed at the cluster."""

    def __init__(self, session, release, bootstrap_servers):
        self._session = session
        self._topic_command = TOPIC_COMMANDS[release]
        self._at = ("--bootstrap-server", bootstrap_servers)
        self.suffix = release.replace(".", "-")

    def topics(self, *arguments):
        return self._session.run(self._topic_command, *self._at, *arguments)

    def configs(self, *arguments):
        return self._session.run("kafka.admin.ConfigCommand", *self._at, *arguments)

    def api_versions(self):
        return self._session.run(API_VERSIONS_COMMANDS[self.suffix], *self._at)

    def described(self, name, partitions):
        """The header and the partition lines, once all brokers know that many partitions."""
        answer = eventually(
            lambda: self.topics("--describe", "--topic", name),
            lambda answer: len(PARTITION_LINE.findall(answer.stdout)) == partitions,
        )
        header, *lines = answer.stdout.splitlines()
        return header, [PARTITION_LINE.match(line).groupdict() for line in lines]


@pytest.fixture(scope="module", params=TOPIC_COMMANDS)
def tools(request, ottla_processes):
    need_jars(request.param)
    with ToolSession(request.param) as session:
        yield Tools(session, request.param, ottla_processes.bootstrap_servers)


def test_create_describe_and_delete(tools, ottla_processes):
    name = f"orders-{tools.suffix}"
    created = tools.topics(
        *("--create", "--topic", name, "--partitions", "4", "--replication-factor", "3"),
        *("--config", "retention.ms=3600000"),
    )
    assert (created.returncode, created.stdout) == (0, f"Created topic {name}.\n"), created
    header, lines = tools.described(name, 4)
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 4\tReplicationFactor: 3"
        r"\tConfigs: (\S+,)?retention\.ms=3600000(,\S+)?",
        header,
    )
    assert [int(line["partition"]) for line in lines] == [0, 1, 2, 3]
    for line in lines:
        replicas = line["replicas"].split(",")
        assert sorted(replicas) == ["0", "1", "2"]
        assert line["leader"] == replicas[0], "a new topic is led by its preferred replicas"
        assert line["isr"] == line["replicas"]
    assert name in tools.topics("--list").stdout.splitlines()

    with kazoo(ottla_processes.zookeeper) as zookeeper:
        assert zookeeper.exists(f"/brokers/topics/{name}/partitions/3/state")
        deleted = tools.topics("--delete", "--topic", name)
        assert (deleted.returncode, deleted.stdout) == (0, ""), deleted
        eventually(lambda: zookeeper.exists(f"/brokers/topics/{name}"), lambda stat: stat is None)
        eventually(
            lambda: zookeeper.get_children("/admin/delete_topics"), lambda left: name not in left
        )
    eventually(lambda: tools.topics("--list").stdout.splitlines(), lambda left: name not in left)


def test_expansion_and_explicit_replicas(tools):
    name = f"grown-{tools.suffix}"
    at = ("--topic", name)
    assert tools.topics("--create", *at, "--replica-assignment", "0:1,1:2").returncode == 0
    _, lines = tools.described(name, 2)
    assert [line["replicas"] for line in lines] == ["0,1", "1,2"]

    grown = tools.topics("--alter", *at, "--partitions", "3", "--replica-assignment", "2:1,0:2,2:0")
    assert (grown.returncode, grown.stdout) == (0, ""), grown
    _, lines = tools.described(name, 3)
    assert [line["replicas"] for line in lines] == ["0,1", "1,2", "2,0"], "only what is new counts"
    assert tools.topics("--alter", *at, "--partitions", "6").returncode == 0
    tools.described(name, 6)

    fewer = tools.topics("--alter", *at, "--partitions", "2")
    assert fewer.returncode == 1
    assert "which is higher than the requested 2" in fewer.stdout + fewer.stderr
    for filtered in ("--under-replicated-partitions", "--unavailable-partitions"):
        answer = tools.topics("--describe", *at, filtered)
        assert (answer.returncode, answer.stdout.strip()) == (0, "")
    assert tools.topics("--delete", *at).returncode == 0


def test_configs(tools, ottla_processes):
    name = f"tuned-{tools.suffix}"
    entity = ("--entity-type", "topics", "--entity-name", name)
    create = ("--create", "--topic", name, "--partitions", "1", "--replication-factor", "1")
    assert tools.topics(*create).returncode == 0
    added = "retention.ms=5000,cleanup.policy=[compact,delete]"
    changed = tools.configs("--alter", *entity, "--add-config", added)
    assert changed.stdout == f"Completed updating config for topic {name}.\n", changed
    path = f"/config/topics/{name}"
    with kazoo(ottla_processes.zookeeper) as zookeeper:
        stored = json.loads(zookeeper.get(path)[0])["config"]
        assert stored == {"retention.ms": "5000", "cleanup.policy": "compact,delete"}
        shown = tools.configs("--describe", *entity)
        assert shown.stdout.startswith(f"Dynamic configs for topic {name} are:\n")
        assert re.search(
            r"  retention\.ms=5000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:", shown.stdout
        )
        everything = tools.configs("--describe", *entity, "--all")
        assert len(everything.stdout.splitlines()) > 20
        deleted = tools.configs("--alter", *entity, "--delete-config", "cleanup.policy")
        assert deleted.returncode == 0, deleted
        assert json.loads(zookeeper.get(path)[0])["config"] == {"retention.ms": "5000"}

    bad = tools.configs("--alter", *entity, "--add-config", "retention.ms=soon")
    assert bad.returncode == 1
    assert "Invalid value soon for configuration retention.ms" in bad.stdout + bad.stderr
    assert tools.topics("--delete", "--topic", name).returncode == 0


def test_refusals_read_as_from_kafka(tools):
    name = f"twice-{tools.suffix}"
    create = ("--create", "--topic", name, "--partitions", "1", "--replication-factor", "1")
    assert tools.topics(*create).returncode == 0
    again = tools.topics(*create)
    assert again.returncode == 1
    assert f"Topic '{name}' already exists." in again.stdout
    assert tools.topics(*create, "--if-not-exists").returncode == 0

    wide = tools.topics(
        *("--create", "--topic", f"{name}-wide", "--partitions", "1", "--replication-factor", "4")
    )
    assert wide.returncode == 1
    assert re.search(r"[Rr]eplication factor: 4 larger than available brokers: 3", wide.stdout)

    absent = tools.topics("--describe", "--topic", f"{name}-absent")
    assert absent.returncode == 1
    assert f"Topic '{name}-absent' does not exist as expected" in absent.stdout
    assert tools.topics("--delete", "--topic", f"{name}-absent", "--if-exists").returncode == 0


API_VERSIONS_COMMANDS = {
    "kafka-2-8-2": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-4-1": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


def test_apis_that_java_does_not_know_are_passed_over(tools):
    printed = tools.api_versions()
    assert printed.returncode == 0, printed.stderr
    for key in (20000, 20001, 20002):
        assert printed.stdout.count(f"UNKNOWN({key}): 0") == 3, "one line for each broker"
