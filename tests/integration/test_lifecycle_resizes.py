"""A topic gets another number of partitions (ADR 53). The copy is made by hand here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import TopicPartition as Position

from ottla.broker.handlers import begin_resize
from ottla.client.admin.client import Admin
from ottla.client.admin.resizing import ResizeBegun
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.resizes import ResizeZnode, StoredResize
from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import TopicPartitionsZnode, TopicsZnode, TopicZnode
from ottla.runtime import system_runtime
from ottla.topics.partitioners import Partitioner, partition_of
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster


@asynccontextmanager
async def admin_of(cluster: LocalCluster) -> AsyncIterator[Admin]:
    async with Admin.connect(system_runtime(), cluster.bootstrap) as admin:
        yield admin


def copy(cluster: LocalCluster, source: str, shadow: str, partitions: int, into: int) -> None:
    """Everything, partition p into p mod `into`."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "copy-by-hand"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    try:
        for partition in range(partitions):
            at = Position(source, partition)
            first, end = consumer.get_watermark_offsets(at, timeout=10)
            consumer.assign([Position(source, partition, first)])
            left = end - first
            while left:
                for message in consumer.consume(left, timeout=5):
                    assert message.error() is None, message.error()
                    producer.produce(shadow, message.value(), partition=partition % into)
                    left -= 1
        assert producer.flush(30) == 0
    finally:
        consumer.close()


async def children(cluster: LocalCluster, path: str) -> list[str]:
    try:
        return await cluster.controller.services.store.children(path)
    except NoNodeError:
        return []


async def begin(admin: Admin, topic: str, partitions: int) -> ResizeBegun:
    return await admin.begin_resize(topic, partitions, partitioner="murmur2")


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 3)])
async def test_the_name_gets_another_shape(cluster: LocalCluster, old: int, new: int) -> None:
    await h.create(
        cluster, "t", *([p % 3, (p + 1) % 3] for p in range(old)), retention_ms="1234567"
    )
    for partition in range(old):
        await h.produce(cluster, "t", range(10 * partition, 10 * partition + 5), partition)
    await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "t", 5 * old)
    async with admin_of(cluster) as admin:
        begun = await begin(admin, "t", new)
        assert (begun.old_partitions, begun.replication_factor) == (old, 2)
        assert (await begin(admin, "t", new)).is_resumed
        assert [state.phase for state in await admin.resizes()] == ["copying"]
        fence = await admin.fence_resize("t", begun.topic_id)
        assert await admin.fence_resize("t", begun.topic_id, fence) == fence
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        producer.produce("t", b"late", partition=1)
        assert producer.flush(0.5) == 1
        await asyncio.to_thread(copy, cluster, "t", begun.shadow, old, new)
        offsets = {p: 5 * len(range(p, old, new)) for p in range(new)}
        ended = await admin.finish_resize("t", begun, fence, {"readers": offsets})
        assert (ended.topic_id, ended.groups) == (begun.shadow_id, 1)
        # Asked again, by somebody whose connection broke.
        again = await admin.finish_resize("t", begun, fence, {"readers": offsets})
        assert again.topic_id == begun.shadow_id
    assert await asyncio.to_thread(producer.flush, 10) == 0
    await cluster.until_all_know("t", new, 2)
    # By the epoch consumers know that what they know of the topic is old (KIP-320).
    epochs = await asyncio.to_thread(committed_epochs, cluster, "readers", new)
    known = cluster.controller.services.metadata_cache.topic_partitions("t")
    assert epochs == [known[p].leader_epoch for p in range(new)]
    assert await children(cluster, ResizeZnode.parent()) == []
    assert begun.shadow not in await children(cluster, TopicsZnode.path())
    assert len(await children(cluster, TopicPartitionsZnode.path("t"))) == new
    data, _ = await cluster.controller.services.store.get(TopicZnode.path("t"))
    assert TopicZnode.decode(data).topic_id == begun.shadow_id
    for node in cluster.nodes.values():
        logs = list(node.services.replica_manager.log_manager.logs())
        mine = {log.tp.partition for log in logs if log.tp.topic == "t"}
        assert mine <= set(range(new))
        assert not [log.tp for log in logs if log.tp.topic == begun.shadow]
        assert {log.topic_id for log in logs if log.tp.topic == "t"} <= {begun.shadow_id}
        for log in logs:
            if log.tp.topic == "t":
                assert log.settings.overrides == {"retention.ms": "1234567"}
    values = await asyncio.to_thread(h.consume_and_commit, cluster, "others", "t", 5 * old + 1)
    assert len(values) == 5 * old + 1
    assert await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "t", 1) == [b"late"]


async def test_a_shadow_that_is_made_after_the_end_of_its_resize_goes(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ask for the same resize. The first gives it up, the second still makes the shadow."""
    await h.create(cluster, "t", [0, 1], [1, 2])
    make = begin_resize._make_shadow

    async def late(ctx: Any, resize: StoredResize, request: Any) -> None:
        if not request.validate_only:
            assert await ctx.services.controller.resizes.abort("t") is True
        await make(ctx, resize, request)

    monkeypatch.setattr(begin_resize, "_make_shadow", late)
    async with admin_of(cluster) as admin:
        with pytest.raises(KafkaError) as raised:
            await begin(admin, "t", 3)
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED

        async def is_alone() -> bool:
            return await children(cluster, TopicsZnode.path()) == ["t"]

        await h.until_true(is_alone, "the shadow is gone")
        monkeypatch.undo()
        assert not (await begin(admin, "t", 3)).is_resumed


def committed_epochs(cluster: LocalCluster, group: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    found = consumer.committed([Position("t", p) for p in range(partitions)], timeout=10)
    consumer.close()
    return [place.leader_epoch for place in found]


async def resize_with_guard(
    cluster: LocalCluster, admin: Admin, new: int, meanwhile: Callable[[], None]
) -> None:
    """An empty topic; `meanwhile` is called while it takes no records."""
    begun = await begin(admin, "t", new)
    fence = await admin.fence_resize("t", begun.topic_id)
    await asyncio.to_thread(meanwhile)
    finishing = asyncio.create_task(admin.finish_resize("t", begun, fence, {}, guards_keys=True))
    while not finishing.done():
        for node in cluster.nodes.values():
            assert node.services.metadata_cache.contains_topic("t"), "clients ask all the time"
        await asyncio.sleep(0)
    await finishing
    await cluster.until_all_know("t", new, 2)


@pytest.mark.parametrize(("old", "new"), [(5, 3), (2, 5)])
async def test_no_key_leaves_its_partition(cluster: LocalCluster, old: int, new: int) -> None:
    """Records that producers hold by the old number of partitions: each is where its key lives,
    or its producer was told that it is not."""
    await h.create(cluster, "t", *([p % 3, (p + 1) % 3] for p in range(old)))
    outcomes: dict[bytes, str] = {}

    def delivered(error: ClientError | None, message: Message) -> None:
        outcomes[message.value() or b""] = "" if error is None else error.name()

    def send(producer: Producer, values: range) -> None:
        for value in values:
            producer.produce("t", str(value), key=f"k{value % 30}", on_delivery=delivered)

    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "topic.metadata.refresh.interval.ms": 600_000,
    }
    busy, idle = Producer(settings), Producer(settings | {"client.id": "idle"})
    for producer in (busy, idle):
        # It knows the old shape from now on.
        await asyncio.to_thread(producer.list_topics, "t", 10)

    def hold() -> None:
        send(busy, range(300))
        assert busy.flush(0.5) == 300

    async with admin_of(cluster) as admin:
        await resize_with_guard(cluster, admin, new, hold)
    await asyncio.to_thread(busy.flush, 30)
    assert len(outcomes) == 300
    assert "INVALID_RECORD" in outcomes.values()
    # Those beside them in a batch, and those of partitions that are gone.
    gone = {"_UNKNOWN_PARTITION", "_DESTROY"}
    told = {"", "INVALID_RECORD", "_INVALID_DIFFERENT_RECORD"} | gone
    assert set(outcomes.values()) <= told
    send(idle, range(300, 330))
    await asyncio.to_thread(idle.flush, 30)
    send(idle, range(330, 600))
    await asyncio.to_thread(idle.flush, 30)
    send(busy, range(600, 900))
    await asyncio.to_thread(busy.flush, 30)
    later = [outcome for value, outcome in outcomes.items() if int(value) >= 330]
    assert later == [""] * 570, "they know the new shape"
    found = await asyncio.to_thread(read_all, cluster, new)
    assert sorted(found) == sorted(value for value, outcome in outcomes.items() if not outcome)
    for value, partition in found.items():
        key = f"k{int(value) % 30}".encode()
        assert partition_of(Partitioner.MURMUR2, key, new) == partition


def read_all(cluster: LocalCluster, partitions: int) -> dict[bytes, int]:
    """The partition of each value; there is none twice."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reads-all"})
    found: dict[bytes, int] = {}
    for partition in range(partitions):
        _, end = consumer.get_watermark_offsets(Position("t", partition), timeout=10)
        consumer.assign([Position("t", partition, 0)])
        left = end
        while left:
            for message in consumer.consume(left, timeout=5):
                assert message.error() is None, message.error()
                assert message.value() not in found
                found[message.value() or b""] = partition
                left -= 1
    consumer.close()
    return found


async def test_an_abort_leaves_the_topic_as_it_was(cluster: LocalCluster) -> None:
    await h.create(cluster, "t", [0, 1], [1, 2])
    await h.produce(cluster, "t", range(5))
    async with admin_of(cluster) as admin:
        begun = await begin(admin, "t", 5)
        await admin.fence_resize("t", begun.topic_id)
        await admin.abort_resize("t")
        await h.produce(cluster, "t", range(5, 8))
        with pytest.raises(KafkaError) as failed:
            await admin.abort_resize("t")
        assert failed.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED

    async def is_gone() -> bool:
        return begun.shadow not in await children(cluster, TopicsZnode.path())

    await h.until_true(is_gone, "the shadow is deleted")
    assert await children(cluster, ResizeZnode.parent()) == []
    values = await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "t", 8)
    assert values == [str(value).encode() for value in range(8)]
