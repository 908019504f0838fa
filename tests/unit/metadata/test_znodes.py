"""Znodes: Kafka's exact bytes, round trips, and what garbage becomes."""

from __future__ import annotations

import pytest

from ottla.metadata.store import Stat
from ottla.metadata.znodes import (
    BadZnodeError,
    BrokerIdZnode,
    BrokerInfo,
    ClusterIdZnode,
    ConfigChange,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    Features,
    FeatureZnode,
    IsrChangeNotificationZnode,
    LeaderAndIsr,
    LogDirEventNotificationZnode,
    PreferredReplicaElectionZnode,
    ProducerIdBlock,
    ProducerIdBlockZnode,
    ReassignPartitionsZnode,
    ReplicaAssignment,
    TopicAssignment,
    TopicPartitionStateZnode,
    TopicZnode,
)
from ottla.types import Endpoint, TopicPartition, parse_topic_id

STAT = Stat(0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0)
TP = TopicPartition("t", 0)
GARBAGE = [None, b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b"[" * 5000, b'{"version":"x"}']

BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,'
    b'"timestamp":"1794710246689"}'
)


def test_broker_bytes() -> None:
    info = BrokerInfo(0, (Endpoint("PLAINTEXT", "h", 9092),), timestamp_ms=1794710246689)
    assert BrokerIdZnode.encode(info) == BROKER
    assert BrokerIdZnode.decode(0, BROKER) == info
    racked = BrokerInfo(0, info.endpoints, rack="r1", timestamp_ms=1)
    assert b'"endpoints":["PLAINTEXT://h:9092"],"rack":"r1","jmx_port"' in BrokerIdZnode.encode(
        racked
    )


def test_broker_without_a_plaintext_endpoint_has_no_host() -> None:
    info = BrokerInfo(3, (Endpoint("INTERNAL", "::1", 9093, "SSL"),))
    encoded = BrokerIdZnode.encode(info)
    assert b'"port":-1,"host":null' in encoded
    assert b'"INTERNAL://[::1]:9093"' in encoded
    assert BrokerIdZnode.decode(3, encoded) == info


def test_old_broker_versions() -> None:
    first = BrokerIdZnode.decode(1, b'{"version":1,"host":"h","port":9,"jmx_port":1}')
    assert first.endpoints == (Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT"),)
    third = BrokerIdZnode.decode(1, b'{"version":3,"endpoints":["SSL://h:9"],"rack":"r"}')
    assert (third.endpoints, third.rack) == ((Endpoint("SSL", "h", 9, "SSL"),), "r")


@pytest.mark.parametrize(
    "data",
    [
        *GARBAGE,
        b'{"version":0}',
        b'{"version":5}',
        b'{"version":5,"endpoints":["nothing"]}',
        b'{"version":1}',
    ],
)
def test_bad_broker_znodes_are_refused(data: bytes | None) -> None:
    with pytest.raises(BadZnodeError):
        BrokerIdZnode.decode(0, data)


TOPIC = (
    b'{"partitions":{"0":[1,2],"1":[2,3]},"topic_id":"EU90pM3STQq4HeI_CKdueA",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)


def test_topic_bytes() -> None:
    topic_id = parse_topic_id("EU90pM3STQq4HeI_CKdueA")
    partitions = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 3))}
    assert TopicZnode.encode(partitions, topic_id) == TOPIC
    assert TopicZnode.decode(TOPIC) == TopicAssignment(partitions, topic_id)
    moving = {0: ReplicaAssignment((3, 1), adding=(3,), removing=(1,))}
    encoded = TopicZnode.encode(moving)
    assert b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}' in encoded
    assert TopicZnode.decode(encoded) == TopicAssignment(moving, None)
    assert (moving[0].target, moving[0].origin) == ((3,), (1,))


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_is_a_topic_without_partitions(data: bytes | None) -> None:
    assert TopicZnode.decode(data) == TopicAssignment({}, None)


def test_one_bad_partition_leaves_the_others() -> None:
    data = b'{"partitions":{"0":[1],"x":[1],"1":"no","2":[true],"-3":[1]},"topic_id":"short"}'
    assert TopicZnode.decode(data) == TopicAssignment({0: ReplicaAssignment((1,))}, None)


STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'


def test_state_bytes() -> None:
    state = LeaderAndIsr(0, 0, (0, 1), 1, zk_version=7)
    assert TopicPartitionStateZnode.encode(state) == STATE
    assert TopicPartitionStateZnode.decode(STATE, STAT) == state


@pytest.mark.parametrize("data", [*GARBAGE, b'{"leader":1,"leader_epoch":1,"isr":[1]}'])
def test_garbage_is_no_state(data: bytes | None) -> None:
    assert TopicPartitionStateZnode.decode(data, STAT) is None


def test_controller_bytes() -> None:
    encoded = ControllerZnode.encode(0, 1794710246843)
    assert encoded == b'{"version":1,"brokerid":0,"timestamp":"1794710246843"}'
    assert ControllerZnode.decode(encoded) == 0
    newer = b'{"version":2,"brokerid":4,"timestamp":"1","kraftControllerEpoch":-1}'
    assert ControllerZnode.decode(newer) == 4
    assert [ControllerZnode.decode(data) for data in GARBAGE] == [None] * len(GARBAGE)


def test_controller_epoch_is_bare_text() -> None:
    assert ControllerEpochZnode.encode(12) == b"12"
    assert ControllerEpochZnode.decode(b"12") == 12
    with pytest.raises(BadZnodeError):
        ControllerEpochZnode.decode(b"{}")


def test_config_bytes() -> None:
    assert ConfigZnode.encode({}) == b'{"version":1,"config":{}}'
    encoded = ConfigZnode.encode({"cleanup.policy": "compact"})
    assert encoded == b'{"version":1,"config":{"cleanup.policy":"compact"}}'
    assert ConfigZnode.decode(encoded) == {"cleanup.policy": "compact"}
    assert [ConfigZnode.decode(data) for data in GARBAGE] == [{}] * len(GARBAGE)
    assert ConfigZnode.path("brokers", "<default>") == "/config/brokers/<default>"


def test_config_change_bytes() -> None:
    encoded = ConfigChangeZnode.encode(ConfigChange("topics/foo"))
    assert encoded == b'{"version":2,"entity_path":"topics/foo"}'
    assert ConfigChangeZnode.decode(encoded) == ConfigChange("topics/foo")
    old = b'{"version":1,"entity_type":"topics","entity_name":"foo"}'
    assert ConfigChangeZnode.decode(old) == ConfigChange("topics/foo")
    for data in GARBAGE:
        with pytest.raises(BadZnodeError):
            ConfigChangeZnode.decode(data)


def test_admin_and_notification_bytes() -> None:
    moves = {TP: (1, 2)}
    encoded = ReassignPartitionsZnode.encode(moves)
    assert encoded == b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    assert ReassignPartitionsZnode.decode(encoded) == moves
    listed = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    for znode in (PreferredReplicaElectionZnode, IsrChangeNotificationZnode):
        assert znode.encode([TP]) == listed
        assert znode.decode(listed) == [TP]
        assert [znode.decode(data) for data in GARBAGE] == [[]] * len(GARBAGE)
    event = LogDirEventNotificationZnode.encode(1)
    assert event == b'{"version":1,"broker":1,"event":1}'
    assert LogDirEventNotificationZnode.decode(event) == 1
    assert LogDirEventNotificationZnode.decode(b"{") is None
    assert ReassignPartitionsZnode.decode(b'{"partitions":[{"topic":"t"}]}') == {}


def test_cluster_feature_and_producer_id_bytes() -> None:
    cluster = ClusterIdZnode.encode("NEvUZqtAQX-EeavvA0RoiQ")
    assert cluster == b'{"version":"1","id":"NEvUZqtAQX-EeavvA0RoiQ"}'
    assert ClusterIdZnode.decode(cluster) == "NEvUZqtAQX-EeavvA0RoiQ"
    features = FeatureZnode.encode(Features({}))
    assert features == b'{"features":{},"version":1,"status":1}'
    assert FeatureZnode.decode(features) == Features({}, 1, 1)
    block = ProducerIdBlockZnode.encode(ProducerIdBlock(0, 0, 999))
    assert block == b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert ProducerIdBlockZnode.decode(block) == ProducerIdBlock(0, 0, 999)
    assert ProducerIdBlockZnode.decode(None) is None
    for data in GARBAGE[2:]:
        for decode in (
            ClusterIdZnode.decode,
            FeatureZnode.decode,
            ProducerIdBlockZnode.decode,
        ):
            with pytest.raises(BadZnodeError):
                decode(data)
