"""kazoo looks at the znodes of a running cluster: Kafka 2.8's, and they follow what happens."""

import json
import queue

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.peers.java_tools import EVENTUALLY_S, eventually, kazoo

TOPIC = "watched"


@pytest.fixture
def zookeeper(ottla_processes):
    with kazoo(ottla_processes.zookeeper) as client:
        yield client


def read(zookeeper, path):
    return json.loads(zookeeper.get(path)[0])


def test_brokers_and_controller_are_registered(ottla_processes, zookeeper):
    assert sorted(zookeeper.get_children("/brokers/ids")) == ["0", "1", "2"]
    addresses = set()
    for broker_id in range(3):
        data, stat = zookeeper.get(f"/brokers/ids/{broker_id}")
        broker = json.loads(data)
        assert stat.ephemeralOwner != 0
        assert broker["version"] == 5
        assert broker["endpoints"] == [f"PLAINTEXT://{broker['host']}:{broker['port']}"]
        addresses.add(f"{broker['host']}:{broker['port']}")
    assert addresses == set(ottla_processes.bootstrap_servers.split(","))

    controller, stat = zookeeper.get("/controller")
    assert json.loads(controller)["brokerid"] in {0, 1, 2}
    assert stat.ephemeralOwner != 0
    assert int(zookeeper.get("/controller_epoch")[0]) >= 1
    assert read(zookeeper, "/cluster/id")["version"] == "1"


def test_a_topic_comes_and_goes_before_the_eyes_of_a_watcher(ottla_processes, zookeeper):
    seen = queue.SimpleQueue()
    zookeeper.ChildrenWatch("/brokers/topics", lambda names: seen.put(TOPIC in names))
    assert seen.get(timeout=EVENTUALLY_S) is False

    admin = AdminClient({"bootstrap.servers": ottla_processes.bootstrap_servers})
    config = {"retention.ms": "3600000"}
    admin.create_topics([NewTopic(TOPIC, 2, 3, config=config)])[TOPIC].result(30)
    wait_for(seen, True)

    topic = read(zookeeper, f"/brokers/topics/{TOPIC}")
    assert topic["version"] == 3
    assert len(topic["topic_id"]) == 22
    assert (topic["adding_replicas"], topic["removing_replicas"]) == ({}, {})
    assert sorted(topic["partitions"]) == ["0", "1"]
    assert read(zookeeper, f"/config/topics/{TOPIC}") == {"version": 1, "config": config}
    for partition, replicas in topic["partitions"].items():
        assert sorted(replicas) == [0, 1, 2]
        state = read(zookeeper, f"/brokers/topics/{TOPIC}/partitions/{partition}/state")
        assert state == {
            "controller_epoch": int(zookeeper.get("/controller_epoch")[0]),
            "leader": replicas[0],
            "version": 1,
            "leader_epoch": 0,
            "isr": replicas,
        }

    admin.delete_topics([TOPIC])[TOPIC].result(30)
    wait_for(seen, False)
    eventually(lambda: zookeeper.get_children("/admin/delete_topics"), lambda left: left == [])
    assert zookeeper.exists(f"/config/topics/{TOPIC}") is None


def wait_for(seen, expected):
    while seen.get(timeout=EVENTUALLY_S) is not expected:
        pass  # another topic of the session came or went
