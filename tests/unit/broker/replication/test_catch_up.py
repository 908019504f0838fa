"""What ended or moved without a word: found in the store, and only there."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.replication import catch_up
from ottla.metadata.ended import MAX_SETTLED, EndedTopic, EndedTopicZnode
from ottla.metadata.znodes import ReplicaAssignment, TopicZnode
from ottla.types import TopicPartition
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import partition, update
from tests.support.broker.logs_and_store import (
    BrokerWithLogs,
    broker_with_logs,
    write_end,
    write_state,
    write_topic,
)

OLD, NEW, NEWER = b"o" * 16, b"n" * 16, b"m" * 16


@pytest.fixture
async def broker(store: EmbeddedStore) -> BrokerWithLogs:
    return await broker_with_logs(store)


async def _entry(store: EmbeddedStore, topic_id: bytes) -> EndedTopic | None:
    data, _ = await store.get(EndedTopicZnode.path(topic_id))
    return EndedTopicZnode.decode(data)


async def test_topics_that_ended_leave_cache_and_disk(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "here", OLD, 1)
    await write_end(store, "gone", NEW)
    broker.log_manager.add("here", 0, OLD)
    broker.log_manager.add("gone", 0, NEW)
    known = {"here": [partition(0)], "gone": [partition(0)]}
    await broker.told(known, epoch=1)
    assert broker.metadata_cache.topics() == ["here"]
    # Named again by the same controller there is no second look, by another one there is.
    broker.metadata_cache.update(update({"gone": [partition(0)]}))
    await broker.told(epoch=2)
    assert broker.metadata_cache.topics() == ["here"]
    assert await broker.told(epoch=2) == ["here-0"]


async def test_topics_that_are_lost_leave_the_cache_and_keep_their_logs(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    broker.log_manager.add("lost", 0, OLD)
    known = {"lost": [partition(0)]}
    for epoch in (1, 2):
        assert await broker.told(known, ids={"lost": OLD}, epoch=epoch) == ["lost-0"]
        assert broker.metadata_cache.topics() == []
    assert await broker.stale_logs.settle() == frozenset()
    assert broker.left() == broker.strays() == ["lost-0"]
    # Written again with its id it is as before.
    await write_topic(store, "lost", OLD, 1)
    await broker.stale_logs.settle()
    assert broker.left() == ["lost-0"] and broker.strays() == []


async def test_a_topic_made_again_elsewhere_takes_the_old_logs(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "t", NEW, 2)
    await write_end(store, "t", OLD)
    broker.log_manager.add("t", 0, OLD)
    broker.log_manager.add("t", 5, OLD)
    assert await broker.told(epoch=1) == []


async def test_a_topic_made_again_by_hand_leaves_the_old_logs(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    """They are in the way only where the new one is placed here too."""
    new_ids = {"here": NEW, "elsewhere": NEWER}
    for name, replica in (("here", 1), ("elsewhere", 2)):
        await write_topic(store, name, new_ids[name], replica)
        broker.log_manager.add(name, 0, OLD)
        broker.hosts.add(TopicPartition(name, 0))
    known = {name: [partition(0)] for name in ("here", "elsewhere")}
    assert await broker.told(known, ids=new_ids, epoch=1) == ["elsewhere-0"]
    assert broker.aside == ["here-0"] and broker.strays() == ["elsewhere-0"]
    assert TopicPartition("elsewhere", 0) not in broker.hosts


async def test_before_a_deletion_by_name_other_lives_are_set_aside(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "again", NEW, 2)
    await write_topic(store, "same", OLD, 2)
    for name in ("again", "same", "gone"):
        broker.log_manager.add(name, 0, OLD)
    await broker.stale_logs.spare_other_lives({"again", "same", "gone"})
    assert broker.aside == ["again-0"] and broker.left() == ["gone-0", "same-0"]


async def test_a_broker_strikes_itself_off_an_entry_which_stays(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_end(store, "one", OLD, 1)
    await write_end(store, "two", NEW, 1, 2)
    await store.create("/ottla/ended/notes", b"by hand")
    broker.log_manager.add("one", 0, OLD)
    broker.log_manager.offline_dirs = ["/failed"]
    await broker.stale_logs.settle()
    assert broker.left() == []
    # A folder that failed may hide a log.
    assert len(await store.children("/ottla/ended")) == 3
    broker.log_manager.offline_dirs = []
    await broker.stale_logs.settle()
    assert await _entry(store, OLD) == EndedTopic("one", ())
    assert await _entry(store, NEW) == EndedTopic("two", (2,))
    # A replica that was not told of its move, as long as it was away or paused.
    broker.log_manager.add("one", 1, OLD)
    await broker.stale_logs.settle()
    assert broker.left() == []


async def test_among_many_entries_the_last_broker_removes_its_own(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    for number in range(MAX_SETTLED):
        await write_end(store, "settled", number.to_bytes(16, "big"))
    await write_end(store, "one", OLD, 1)
    await write_end(store, "two", NEW, 1, 2)
    await broker.stale_logs.settle()
    assert await store.exists(EndedTopicZnode.path(OLD)) is None
    assert await _entry(store, NEW) == EndedTopic("two", (2,))


async def test_an_entry_does_not_count_before_the_znode_is_gone(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "t", OLD, 1)
    await write_end(store, "t", OLD, 1)
    broker.log_manager.add("t", 0, OLD)
    assert await broker.told(epoch=1) == ["t-0"]
    assert await store.exists(EndedTopicZnode.path(OLD)) is not None
    await store.delete(TopicZnode.path("t"))
    assert await broker.told(epoch=2) == []
    assert await _entry(store, OLD) == EndedTopic("t", ())


async def test_a_partition_that_moved_away_is_deleted_only_by_the_stores_word(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    ids = {"moved": OLD, "ours": NEW, "backup": b"b" * 16}
    for name, replicas, epoch in (("moved", (2, 3), 5), ("ours", (1, 2), 5), ("backup", (2,), 4)):
        await write_topic(store, name, ids[name], *replicas)
        await write_state(store, name, 2, epoch)
        broker.log_manager.add(name, 0, ids[name], epoch=4)
    known = {n: [partition(0, leader=2, replicas=[2, 3])] for n in ("moved", "ours", "backup")}
    left = await broker.told(known, ids=ids, epoch=1)
    assert left == ["backup-0", "ours-0"]


async def test_a_leader_keeps_its_log_though_somebody_else_is_listed(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "led", OLD, 2)
    await write_topic(store, "in-sync", OLD, 2)
    broker.log_manager.add("led", 0, OLD)
    broker.log_manager.add("in-sync", 0, OLD)
    known = {
        "led": [partition(0, leader=1, isr=[1], replicas=[2])],
        "in-sync": [partition(0, leader=3, isr=[3, 1], replicas=[2])],
    }
    left = await broker.told(known, ids=dict.fromkeys(known, OLD), epoch=1)
    assert left == ["in-sync-0", "led-0"]


async def ask_to_delete(store: EmbeddedStore, topic: str) -> None:
    for path in ("/admin", "/admin/delete_topics", f"/admin/delete_topics/{topic}"):
        await store.create(path)


async def test_a_log_from_before_a_move_goes_with_its_topic(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    """The controller that deletes a topic asks its replicas only, and tells nothing of it."""
    await ask_to_delete(store, "dying")
    for name, replica in (("dying", 2), ("staying", 2), ("known", 1)):
        await write_topic(store, name, OLD, replica)
        broker.log_manager.add(name, 0, OLD)
    broker.hosts.add(TopicPartition("known", 0))
    assert await broker.told(epoch=1) == ["dying-0", "known-0", "staying-0"]
    known = {"known": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"known": OLD}, epoch=1) == ["known-0", "staying-0"]


async def test_a_replica_that_was_not_told_of_its_move_goes_with_its_topic(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    """The controller died before this broker could take its order to stop."""
    await ask_to_delete(store, "dying")
    for name, replica in (("dying", 2), ("known", 1)):
        await write_topic(store, name, OLD, replica)
        broker.log_manager.add(name, 0, OLD)
        broker.hosts.add(TopicPartition(name, 0))
    known = {"known": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"known": OLD}, epoch=2) == ["known-0"]


async def test_a_log_from_before_a_move_goes_after_its_topic(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "known", OLD, 1)
    await broker.told(epoch=1)
    await write_end(store, "gone", NEW)
    broker.log_manager.add("gone", 0, NEW)
    known = {"known": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"known": OLD}, epoch=1) == []


async def test_a_topic_written_by_hand_tells_whose_the_logs_are_when_it_has_its_id(
    broker: BrokerWithLogs, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "_PAUSE_S", 0)
    for name in ("again", "same"):
        await write_topic(store, name, None, 2)
        broker.log_manager.add(name, 0, OLD)
    await write_end(store, "again", OLD)
    unnamed = await broker.stale_logs.settle()
    assert unnamed == {"again", "same"}
    waiting = asyncio.create_task(catch_up.settle_when_named(broker.stale_logs, unnamed))
    for name, topic_id in (("again", NEW), ("same", OLD)):
        value = TopicZnode.encode({0: ReplicaAssignment((2,))}, topic_id)
        await store.set(TopicZnode.path(name), value)
    await waiting
    assert [str(tp) for tp in broker.log_manager.by_partition] == ["same-0"]
