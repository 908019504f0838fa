"""Apache Kafka 2.8.2 brokers run on Ottla's store as on ZooKeeper: topics, failover, deletion."""

import json

import pytest

from ottla.testing.java import ApacheKafka
from tests.support.peers.java_tools import eventually, kazoo

pytestmark = pytest.mark.peers

TOPIC = "kept-by-ottla"


def test_kafka_brokers_live_on_it(ottla_store, java_tool):
    topics = java_tool("kafka-2.8.2", "kafka.admin.TopicCommand")
    path = f"/brokers/topics/{TOPIC}"
    with (
        ApacheKafka(f"{ottla_store}/apache", brokers=2) as kafka,
        kazoo(f"{ottla_store}/apache") as zookeeper,
    ):

        def state():
            return json.loads(zookeeper.get(f"{path}/partitions/0/state")[0])

        at_kafka = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", TOPIC)
        created = topics(*at_kafka, "--create", "--partitions", "1", "--replication-factor", "2")
        assert created.stdout == f"Created topic {TOPIC}.\n", created.stderr
        leader = state()["leader"]
        assert state()["isr"] == [leader, 1 - leader]

        # Its ephemeral node goes when the session runs out, and the other broker is told.
        kafka.kill(leader)
        eventually(state, lambda now: (now["leader"], now["isr"]) == (1 - leader, [1 - leader]))
        kafka.restart(leader)
        eventually(state, lambda now: sorted(now["isr"]) == [0, 1])

        assert topics(*at_kafka, "--delete").returncode == 0
        eventually(lambda: zookeeper.exists(path), lambda stat: stat is None)
