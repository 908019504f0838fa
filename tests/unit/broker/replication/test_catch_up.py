"""What ended or moved without a word: found in the store, and only there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.replication import catch_up
from ottla.broker.replication.catch_up import CatchUp
from ottla.broker.replication.stale_logs import StaleLogs
from ottla.metadata.znodes import ReplicaAssignment, TopicZnode
from ottla.types import TopicPartition
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import partition, update

OLD, NEW = b"o" * 16, b"n" * 16


class Logs:
    """Broker 1's logs as far as the look at them goes."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, SimpleNamespace] = {}

    def add(self, topic: str, number: int, topic_id: bytes) -> None:
        tp = TopicPartition(topic, number)
        self.by_partition[tp] = SimpleNamespace(tp=tp, topic_id=topic_id, end_offset=3)

    def logs(self) -> list[SimpleNamespace]:
        return list(self.by_partition.values())

    def get(self, tp: TopicPartition) -> SimpleNamespace | None:
        return self.by_partition.get(tp)

    def stale_logs(self, ids: dict[str, bytes | None]) -> list[TopicPartition]:
        return [
            tp
            for tp, log in self.by_partition.items()
            if tp.topic not in ids or ids[tp.topic] not in (None, log.topic_id)
        ]


class Broker:
    def __init__(self, store: EmbeddedStore) -> None:
        self.broker_id = 1
        self.partitions = self
        self.metadata_cache = MetadataCache()
        self.log_manager = Logs()
        self.hosts: set[TopicPartition] = set()
        self.work: list[asyncio.Task[None]] = []
        self.stale_logs = StaleLogs(store, self)  # type: ignore[arg-type]
        listener = CatchUp(self.stale_logs, self.metadata_cache, self._spawn)
        self.metadata_cache.add_listener(listener.metadata_came)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(asyncio.get_running_loop().create_task(work))

    def get(self, tp: TopicPartition) -> TopicPartition | None:
        return tp if tp in self.hosts else None

    def delete(self, tp: TopicPartition) -> None:
        del self.log_manager.by_partition[tp]

    async def told(self, *arguments: Any, epoch: int, **named: Any) -> list[str]:
        """Hears from the controller of this epoch; the logs that are left then."""
        request = update(*arguments, **named)
        request.controller_epoch = epoch
        self.metadata_cache.update(request)
        await asyncio.gather(*self.work)
        return sorted(map(str, self.log_manager.by_partition))


@pytest.fixture
async def broker(store: EmbeddedStore) -> Broker:
    await store.create("/brokers")
    await store.create("/brokers/topics")
    return Broker(store)


async def _topic(store: EmbeddedStore, name: str, topic_id: bytes | None, *replicas: int) -> None:
    value = TopicZnode.encode({0: ReplicaAssignment(replicas)}, topic_id)
    await store.create(TopicZnode.path(name), value)


async def test_topics_that_are_gone_leave_cache_and_disk(
    broker: Broker, store: EmbeddedStore
) -> None:
    await _topic(store, "here", OLD, 1)
    broker.log_manager.add("here", 0, OLD)
    broker.log_manager.add("gone", 0, OLD)
    known = {"here": [partition(0)], "gone": [partition(0)]}
    await broker.told(known, epoch=1)
    assert broker.metadata_cache.topics() == ["here"]
    # Named again by the same controller there is no second look, by another one there is.
    broker.metadata_cache.update(update({"gone": [partition(0)]}))
    await broker.told(epoch=2)
    assert broker.metadata_cache.topics() == ["here"]
    assert await broker.told(epoch=2) == ["here-0"]


async def test_a_topic_made_again_elsewhere_takes_the_old_logs(
    broker: Broker, store: EmbeddedStore
) -> None:
    await _topic(store, "t", NEW, 2)
    broker.log_manager.add("t", 0, OLD)
    broker.log_manager.add("t", 5, OLD)
    assert await broker.told(epoch=1) == ["t-0", "t-5"]
    assert await broker.told({"t": [partition(0)]}, ids={"t": NEW}, epoch=1) == []


async def test_a_partition_that_moved_away_is_deleted_only_by_the_stores_word(
    broker: Broker, store: EmbeddedStore
) -> None:
    await _topic(store, "moved", OLD, 2, 3)
    await _topic(store, "ours", OLD, 1, 2)
    broker.log_manager.add("moved", 0, OLD)
    broker.log_manager.add("ours", 0, OLD)
    elsewhere = [partition(0, leader=2, replicas=[2, 3])]
    ids = {"moved": OLD, "ours": OLD}
    left = await broker.told({"moved": elsewhere, "ours": elsewhere}, ids=ids, epoch=1)
    assert left == ["ours-0"]


async def test_a_leader_keeps_its_log_though_somebody_else_is_listed(
    broker: Broker, store: EmbeddedStore
) -> None:
    await _topic(store, "led", OLD, 2)
    await _topic(store, "in-sync", OLD, 2)
    broker.log_manager.add("led", 0, OLD)
    broker.log_manager.add("in-sync", 0, OLD)
    known = {
        "led": [partition(0, leader=1, isr=[1], replicas=[2])],
        "in-sync": [partition(0, leader=3, isr=[3, 1], replicas=[2])],
    }
    left = await broker.told(known, ids=dict.fromkeys(known, OLD), epoch=1)
    assert left == ["in-sync-0", "led-0"]


async def test_a_log_from_before_a_move_goes_with_its_topic(
    broker: Broker, store: EmbeddedStore
) -> None:
    """The controller that deletes a topic asks its replicas only, and tells nothing of it."""
    await store.create("/admin")
    await store.create("/admin/delete_topics")
    await store.create("/admin/delete_topics/dying")
    for name, replica in (("dying", 2), ("staying", 2), ("known", 1)):
        await _topic(store, name, OLD, replica)
        broker.log_manager.add(name, 0, OLD)
    broker.hosts.add(TopicPartition("known", 0))
    assert await broker.told(epoch=1) == ["dying-0", "known-0", "staying-0"]
    known = {"known": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"known": OLD}, epoch=1) == ["known-0", "staying-0"]


async def test_a_log_from_before_a_move_goes_after_its_topic(
    broker: Broker, store: EmbeddedStore
) -> None:
    await _topic(store, "known", OLD, 1)
    await broker.told(epoch=1)
    broker.log_manager.add("gone", 0, OLD)
    known = {"known": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"known": OLD}, epoch=1) == []


async def test_a_topic_written_by_hand_tells_whose_the_logs_are_when_it_has_its_id(
    broker: Broker, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "_PAUSE_S", 0)
    for name in ("again", "same"):
        await _topic(store, name, None, 2)
        broker.log_manager.add(name, 0, OLD)
    unnamed = await broker.stale_logs.delete()
    assert unnamed == {"again", "same"}
    waiting = asyncio.create_task(catch_up.delete_when_named(broker.stale_logs, unnamed))
    for name, topic_id in (("again", NEW), ("same", OLD)):
        value = TopicZnode.encode({0: ReplicaAssignment((2,))}, topic_id)
        await store.set(TopicZnode.path(name), value)
    await waiting
    assert [str(tp) for tp in broker.log_manager.by_partition] == ["same-0"]
