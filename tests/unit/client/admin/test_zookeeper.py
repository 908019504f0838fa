"""Topics by znodes: the bytes Kafka 2.8 writes, its checks, racks, what is read back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from random import Random

import pytest

from ottla.client.admin.zookeeper import StoredPartition, StoreUnreachable, ZooKeeperAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import BrokerIdZnode, BrokerInfo
from ottla.runtime import system_runtime
from ottla.topics.assignment import AdminOperationError, RackAwareMode
from ottla.types import Endpoint
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    engine = Engine(system_runtime())
    yield EmbeddedStore(engine)
    await engine.stop()


@pytest.fixture
def admin(store: EmbeddedStore) -> ZooKeeperAdmin:
    return ZooKeeperAdmin(store, Random(1))


async def register(store: EmbeddedStore, *racks: str | None) -> None:
    for path in ("/brokers", "/brokers/ids"):
        await store.create(path)
    for broker_id, rack in enumerate(racks):
        info = BrokerInfo(broker_id, (Endpoint("PLAINTEXT", "h", 9092),), rack=rack)
        await store.create(BrokerIdZnode.path(broker_id), BrokerIdZnode.encode(info))


async def read(store: EmbeddedStore, path: str) -> bytes | None:
    return (await store.get(path))[0]


async def test_a_topic_is_two_znodes(store: EmbeddedStore, admin: ZooKeeperAdmin) -> None:
    await admin.create_topic_with_assignment("t", {0: [1, 2], 1: [2, 3]}, {"retention.ms": "5"})
    assert await read(store, "/brokers/topics/t") == (
        b'{"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"removing_replicas":{},'
        b'"version":3}'
    ), "no topic id: the controller gives one"
    assert await read(store, "/config/topics/t") == b'{"version":1,"config":{"retention.ms":"5"}}'
    assert await read(store, "/brokers/topics") is None, "parents hold null"
    with pytest.raises(KafkaError, match=r"Topic 't' already exists.") as caught:
        await admin.create_topic_with_assignment("t", {0: [1]}, {})
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "assignment", "configs", "text"),
    [
        ("a/b", {0: [1]}, {}, "is illegal"),
        ("a_b", {0: [1]}, {}, "Topic 'a_b' collides with existing topics: a.b"),
        ("t", {0: [1], 1: [1, 2]}, {}, "All partitions should have the same number of replicas"),
        ("t", {0: [1, 1]}, {}, "Duplicate replica assignment found"),
        ("t", {0: [1], 2: [1]}, {}, "consecutive 0-based"),
        ("t", {0: [1]}, {"x": "y"}, "Unknown topic config name: x"),
    ],
)
async def test_what_is_refused_is_not_written(
    store: EmbeddedStore,
    admin: ZooKeeperAdmin,
    name: str,
    assignment: dict[int, list[int]],
    configs: dict[str, str],
    text: str,
) -> None:
    await admin.create_topic_with_assignment("a.b", {0: [1]}, {})
    with pytest.raises(KafkaError, match=text):
        await admin.create_topic_with_assignment(name, assignment, configs)
    assert await admin.topic_names() == ["a.b"]
    assert await store.children("/config/topics") == ["a.b"]


async def test_racks_are_all_or_refused_or_left_aside(
    store: EmbeddedStore, admin: ZooKeeperAdmin
) -> None:
    await register(store, "r1", None, "r1")
    with pytest.raises(AdminOperationError) as caught:
        await admin.create_topic("t", 4, 2, {})
    assert str(caught.value) == (
        "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
        "replica assignment without rack information."
    )
    assert await admin.topic_names() == []
    await admin.create_topic("t", 4, 2, {}, rack_aware=RackAwareMode.DISABLED)
    (topic,) = await admin.describe(["t"])
    assert [len(set(p.replicas)) for p in topic.partitions] == [2, 2, 2, 2]


async def test_racks_spread_replicas(store: EmbeddedStore, admin: ZooKeeperAdmin) -> None:
    await register(store, "r1", "r1", "r2", "r2")
    await admin.create_topic("t", 8, 2, {})
    (topic,) = await admin.describe(["t"])
    assert all({replica // 2 for replica in p.replicas} == {0, 1} for p in topic.partitions)


async def test_partitions_are_added(store: EmbeddedStore, admin: ZooKeeperAdmin) -> None:
    await register(store, None, None, None)
    await admin.create_topic_with_assignment("t", {0: [2, 0]}, {})
    await admin.add_partitions("t", 3, None)
    value = json.loads(await read(store, "/brokers/topics/t") or b"")
    # From where the first replica is, start and shift both there (Kafka's fixed start index).
    assert value["partitions"] == {"0": [2, 0], "1": [0, 1], "2": [1, 2]}
    await admin.add_partitions("t", 4, {0: [9, 9], 1: [9], 2: [9], 3: [0, 2]})
    value = json.loads(await read(store, "/brokers/topics/t") or b"")
    assert value["partitions"]["3"] == [0, 2], "what exists is passed over, the rest taken"


@pytest.mark.parametrize(
    ("name", "total", "assignment", "text"),
    [
        ("t", 1, None, "can only be increased. Topic t currently has 1 partitions, 1 would not"),
        ("t", 2, {1: [7, 0]}, "Some brokers specified for partition id 1 are not available"),
        ("t", 2, {1: [0]}, "Inconsistent replication factor between partitions"),
        ("none", 2, None, "The topic none does not exist"),
    ],
)
async def test_refused_expansions(
    store: EmbeddedStore,
    admin: ZooKeeperAdmin,
    name: str,
    total: int,
    assignment: dict[int, list[int]] | None,
    text: str,
) -> None:
    await register(store, None, None)
    await admin.create_topic_with_assignment("t", {0: [0, 1]}, {})
    with pytest.raises(KafkaError, match=text):
        await admin.add_partitions(name, total, assignment)
    assert len((await admin.describe(["t"]))[0].partitions) == 1


async def test_an_expansion_keeps_the_topics_id(
    store: EmbeddedStore, admin: ZooKeeperAdmin
) -> None:
    await register(store, None)
    for path in ("/brokers/topics",):
        await store.create(path)
    await store.create(
        "/brokers/topics/t",
        b'{"partitions":{"0":[0]},"topic_id":"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}',
    )
    await admin.add_partitions("t", 2, None)
    (topic,) = await admin.describe(["t"])
    assert topic.topic_id == bytes(range(16)) and len(topic.partitions) == 2


async def test_configs_change_with_a_notification(
    store: EmbeddedStore, admin: ZooKeeperAdmin
) -> None:
    await admin.create_topic_with_assignment("t", {0: [0]}, {"retention.ms": "5", "flush.ms": "9"})
    await admin.alter_configs("t", {"retention.ms": "6"}, ["flush.ms", "segment.ms"])
    assert await admin.configs("t") == {"retention.ms": "6"}
    (change,) = await store.children("/config/changes")
    assert change == "config_change_0000000000"
    assert await read(store, f"/config/changes/{change}") == (
        b'{"version":2,"entity_path":"topics/t"}'
    )
    with pytest.raises(KafkaError, match=r"Topic 'none' does not exist."):
        await admin.alter_configs("none", {}, [])
    with pytest.raises(KafkaError, match="Not a number of type LONG"):
        await admin.alter_configs("t", {"retention.ms": "x"}, [])


async def test_topics_are_marked_for_deletion(store: EmbeddedStore, admin: ZooKeeperAdmin) -> None:
    await admin.create_topic_with_assignment("t", {0: [0]}, {})
    assert await admin.mark_for_deletion("t") is True
    assert await admin.mark_for_deletion("t") is False
    assert await admin.topics_marked_for_deletion() == {"t"}
    assert await read(store, "/admin/delete_topics/t") is None
    assert (await admin.describe(["t"]))[0].is_marked_for_deletion
    with pytest.raises(AdminOperationError, match="__consumer_offsets is a kafka internal topic"):
        await admin.mark_for_deletion("__consumer_offsets")


async def test_leaders_come_from_the_state_znodes(
    store: EmbeddedStore, admin: ZooKeeperAdmin
) -> None:
    await admin.create_topic_with_assignment("t", {0: [1, 2], 1: [2, 1], 2: [1, 2]}, {})
    states = {
        0: b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
        1: b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":0,"isr":[2]}',
    }
    await store.create("/brokers/topics/t/partitions")
    for number, state in states.items():
        await store.create(f"/brokers/topics/t/partitions/{number}")
        await store.create(f"/brokers/topics/t/partitions/{number}/state", state)
    (topic,) = await admin.describe(["t", "gone"])
    assert topic.partitions == [
        StoredPartition(0, 1, (1, 2), (1, 2)),
        StoredPartition(1, None, (2, 1), (2,)),
        StoredPartition(2, None, (1, 2), ()),
    ]


async def test_no_store_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.admin.zookeeper.CONNECT_TIMEOUT_MS", 50)
    with pytest.raises(StoreUnreachable, match=r"ZooKeeper at 127.0.0.1:1/x"):
        await ZooKeeperAdmin.connect(system_runtime(), "127.0.0.1:1/x")
