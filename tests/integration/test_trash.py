"""Deleted topics that are kept: in the trash, back from it, gone for good (ADR 50)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition

from ottla.client.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import DeleteTopicZnode, TopicZnode
from ottla.runtime import system_runtime
from ottla.storage.manager.folder_names import TRASH_FOLDER
from ottla.types import TopicPartition
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

DAY = "86400000"
RETENTION = "ottla_delete_retention_ms"


def admin_of(cluster: LocalCluster) -> Admin:
    return Admin.connect(system_runtime(), cluster.bootstrap, timeout_ms=20_000)


def ends(cluster: LocalCluster, topic: str = "t", partition: int = 0) -> list[int | None]:
    tp = TopicPartition(topic, partition)
    logs = [node.parts.log_manager.get(tp) for _, node in sorted(cluster.nodes.items())]
    return [None if log is None else log.end_offset for log in logs]


def trashed(cluster: LocalCluster, broker_id: int) -> list[Path]:
    return sorted((cluster.folder / f"broker-{broker_id}" / TRASH_FOLDER).glob("*"))


async def make(cluster: LocalCluster, topic: str = "t", **config: str) -> None:
    await h.create(cluster, topic, [0, 1, 2], **({RETENTION: DAY} | config))
    await cluster.until_all_know(topic, 1, 3)


async def until_in_trash(cluster: LocalCluster, admin: Admin, count: int = 1) -> None:
    async def there() -> bool:
        return len([t for t in await admin.deleted_topics() if t.state == "kept"]) == count

    await h.until_true(there, f"{count} topics in the trash")


async def test_deleted_and_brought_back(cluster: LocalCluster) -> None:
    await make(cluster, segment_bytes="4000")
    await h.produce(cluster, "t", range(100))
    topic_id = cluster.controller.services.metadata_cache.topic_id("t")
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        [found] = await admin.deleted_topics()
        assert (found.name, found.topic_id, found.partitions) == ("t", topic_id, 1)
        assert found.until_ms - found.deleted_ms == int(DAY)
        assert ends(cluster) == [None, None, None]
        assert [len(trashed(cluster, b)) for b in (0, 1, 2)] == [1, 1, 1]
        with pytest.raises(KafkaError) as refused:
            await admin.undelete_topic("t", topic_id=b"x" * 16)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert await admin.undelete_topic("t") == topic_id
        assert await admin.deleted_topics() == []
        await cluster.until_all_know("t", 1, 3)
        assert ends(cluster) == [100, 100, 100]
        await h.produce(cluster, "t", range(5))
        await cluster.until(lambda: ends(cluster) == [105] * 3, "old and new records")
        with pytest.raises(KafkaError) as twice:
            await admin.undelete_topic("t")
        assert twice.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node = cluster.controller
        log = node.parts.log_manager.get(TopicPartition("t", 0))
        assert log is not None and log.settings.segment_bytes == 4000
        assert log.settings.ottla_delete_retention_ms == int(DAY)


def leave_open(cluster: LocalCluster) -> None:
    """Ten records of a transaction that nobody ends; then five that are committed."""
    for name, count in (("hangs", 10), ("ends", 5)):
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name}
        producer = Producer(settings)
        producer.init_transactions(15)
        producer.begin_transaction()
        for number in range(count):
            producer.produce("t", f"{name} {number}".encode())
        producer.flush(15)
        if name == "ends":
            producer.commit_transaction(15)


def read_all(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "reader"}
    settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([RdPartition(topic, 0, 0)])
    found = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None and message.error() is None, (found, message)
        found.append(bytes(message.value() or b""))
    consumer.close()
    return found


async def test_transactions_that_were_open(cluster: LocalCluster) -> None:
    await make(cluster)
    await asyncio.to_thread(leave_open, cluster)
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        await admin.undelete_topic("t")
        await h.produce(cluster, "t", range(3))
        found = await asyncio.to_thread(read_all, cluster, "t", 8)
        assert found == [f"ends {n}".encode() for n in range(5)] + [b"0", b"1", b"2"]


def commit(cluster: LocalCluster, topic: str, offset: int) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.commit(offsets=[RdPartition(topic, 0, offset, "note")], asynchronous=False)
    consumer.close()


def committed(cluster: LocalCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    [found] = consumer.committed([RdPartition(topic, 0)], timeout=15)
    consumer.close()
    return int(found.offset)


async def test_offsets_of_groups_go_and_come_with_it(cluster: LocalCluster) -> None:
    await make(cluster)
    await h.produce(cluster, "t", range(50))
    await asyncio.to_thread(commit, cluster, "t", 33)

    async def is_committed(topic: str, offset: int) -> bool:
        return await asyncio.to_thread(committed, cluster, topic) == offset

    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        await h.until_true(lambda: is_committed("t", OFFSET_INVALID), "they are out of sight")
        # Another topic of that name has offsets of its own.
        await make(cluster)
        await asyncio.to_thread(commit, cluster, "t", 1)
        # Whoever coordinates the group next finds them as well.
        number = cluster.controller.parts.groups.partition_for("g")
        leader = h.leader(cluster.controller, "__consumer_offsets", number)
        assert leader is not None
        await cluster.stop(leader)
        await admin.undelete_topic("t", new_name="back")
        await h.until_true(lambda: is_committed("back", 33), "they are back")
        assert await is_committed("t", 1)


async def test_several_lives_of_one_name(cluster: LocalCluster) -> None:
    ids = []
    async with admin_of(cluster) as admin:
        for life in (1, 2, 3):
            await make(cluster)
            await h.produce(cluster, "t", range(life))
            ids.append(cluster.controller.services.metadata_cache.topic_id("t"))
            await h.delete(cluster, "t")
            await until_in_trash(cluster, admin, life)
        assert [t.topic_id for t in await admin.deleted_topics()] == ids[::-1]
        await make(cluster)
        with pytest.raises(KafkaError) as taken:
            await admin.undelete_topic("t")
        assert taken.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await admin.undelete_topic("t", new_name="last") == ids[2]
        assert await admin.undelete_topic("t", topic_id=ids[0], new_name="first") == ids[0]
        for name, count in (("last", 3), ("first", 1), ("t", 0)):
            await cluster.until_all_know(name, 1, 3)
            assert ends(cluster, name) == [count] * 3
        await admin.purge_topic("t")
        assert [t for t in await admin.deleted_topics() if t.state == "kept"] == []
        with pytest.raises(KafkaError):
            await admin.undelete_topic("t", topic_id=ids[1], new_name="middle")


async def test_a_purge_and_the_end_of_its_time(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        config = node.config
        node.parts.log_manager.reconfigure(
            type(config).from_properties({**config.static, "log.segment.delete.delay.ms": "0"})
        )
    await make(cluster, "asked")
    await make(cluster, "due", **{RETENTION: "300"})
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "asked")
        await h.delete(cluster, "due")

        journal = cluster.controller.controller.journal
        await cluster.until(
            lambda: ("due", "Purged") in [(e.topic, e.to_state) for e in journal.recent()],
            "the time of one is over",
        )

        async def only_asked() -> bool:
            return [t.name for t in await admin.deleted_topics()] == ["asked"]

        await h.until_true(only_asked, "nobody has files of it")
        await cluster.stop(2)
        await admin.purge_topic("asked")

        async def waits_for_one() -> bool:
            return [(t.state, t.brokers) for t in await admin.deleted_topics()] == [("going", [2])]

        await h.until_true(waits_for_one, "the broker that is away is waited for")
        assert [len(trashed(cluster, b)) for b in (0, 1, 2)] == [0, 0, 1]
        await cluster.start(2)

        async def over() -> bool:
            return not await admin.deleted_topics()

        await h.until_true(over, "nobody has files of it")
        assert trashed(cluster, 2) == []


@pytest.mark.parametrize("name", ["t", "other"])
async def test_a_broker_that_was_away_all_the_time(cluster: LocalCluster, name: str) -> None:
    await make(cluster)
    await h.produce(cluster, "t", range(20))
    away = next(b for b in (0, 1, 2) if b != cluster.controller.broker_id)
    await cluster.stop(away)
    await h.produce(cluster, "t", range(10))
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        await admin.undelete_topic("t", new_name=name)
        await h.produce(cluster, name, range(3))
        await cluster.start(away)
        await cluster.until_all_know(name, 1, 3)
        assert ends(cluster, name) == [33] * 3


async def test_a_broker_that_was_away_when_it_was_deleted(cluster: LocalCluster) -> None:
    """It is the only one that has all records: the topic waits for it."""
    await make(cluster)
    await h.produce(cluster, "t", range(20))
    last = cluster.controller.broker_id
    others = [b for b in (0, 1, 2) if b != last]
    for broker_id in others:
        await cluster.stop(broker_id)
    await cluster.until(lambda: h.isr(cluster.nodes[last], "t") == {last}, "one is left")
    await h.produce(cluster, "t", range(7))
    await cluster.stop(last, controlled=False)
    for broker_id in others:
        await cluster.start(broker_id)
    async with admin_of(cluster) as admin:
        await h.until_controller_known(cluster)
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        topic = next(iter(await admin.deleted_topics()))
        assert topic.brokers == [0, 1, 2]
        await cluster.start(last)
        await cluster.until(lambda: len(trashed(cluster, last)) == 1, "it keeps its log too")
        await admin.undelete_topic("t")
        await cluster.until_all_know("t", 1, 3)
        assert ends(cluster) == [27] * 3


async def test_the_wish_to_bring_it_back_survives_the_controller(cluster: LocalCluster) -> None:
    await make(cluster)
    await h.produce(cluster, "t", range(9))
    topic_id = cluster.controller.services.metadata_cache.topic_id("t")
    path = EndedTopicZnode.path(topic_id)
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await until_in_trash(cluster, admin)
        store = cluster.controller.services.store
        entry = EndedTopicZnode.decode((await store.get(path))[0])
        assert entry is not None and entry.kept is not None
        wish = entry._replace(kept=entry.kept._replace(undelete_as="back"))
        await store.set(path, EndedTopicZnode.encode_entry(wish))
        # As far as a controller came that died: the znode, without partitions.
        await store.create(TopicZnode.path("back"), TopicZnode.encode({}, topic_id))
        await cluster.stop(cluster.controller.broker_id, controlled=False)
        await h.until_controller_known(cluster)
        await cluster.until_all_know("back", 1, 2)
        await h.produce(cluster, "back", range(1))
        assert [e for e in ends(cluster, "back") if e is not None] == [10, 10]
        with pytest.raises(NoNodeError):
            await cluster.controller.services.store.get(path)


async def test_the_longest_name(cluster: LocalCluster) -> None:
    """The folder in the trash has only its beginning; rights and filters go by all of it."""
    name = "n" * 249
    await make(cluster, name)
    await h.produce(cluster, name, range(3))
    async with admin_of(cluster) as admin:
        await h.delete(cluster, name)
        await until_in_trash(cluster, admin)
        [folder] = await admin.deleted_folders(0, [name])
        assert (folder.topic, folder.state) == (name, "kept")
        await admin.undelete_topic(name)
        await cluster.until(lambda: ends(cluster, name) == [3] * 3, "it is back")


async def test_protected(cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    await make(cluster, ottla_delete_protect="true")
    async with admin_of(cluster) as admin:
        refused = (await admin.delete_topics(["t"]))["t"]
        assert refused is not None and refused.code is ErrorCode.POLICY_VIOLATION
        assert "ottla.delete.protect" in str(refused.message)
        store = cluster.controller.services.store
        await store.create(DeleteTopicZnode.path("t"))

        async def taken_back() -> bool:
            return await store.exists(DeleteTopicZnode.path("t")) is None

        await h.until_true(taken_back, "the request by hand is taken back")
        assert ends(cluster) == [0, 0, 0]
        assert any("is refused: it is protected" in r.message for r in caplog.records)


async def test_without_a_retention_it_is_gone(cluster: LocalCluster) -> None:
    await make(cluster, **{RETENTION: "0"})
    async with admin_of(cluster) as admin:
        await h.delete(cluster, "t")
        await cluster.until(lambda: ends(cluster) == [None] * 3, "gone")
        assert await admin.deleted_topics() == []
        assert [trashed(cluster, b) for b in (0, 1, 2)] == [[], [], []]
