"""Logs of which nobody knows whose they are, beside what the store says of the topic of their name;
and logs that change hands while the store is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.metadata.ended import EndedTopicZnode, Kept
from ottla.metadata.store import Stat, StoreError
from ottla.metadata.znodes import ReplicaAssignment, TopicZnode
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import partition
from tests.support.broker.logs_and_store import BrokerWithLogs, broker_with_logs, write_topic

OLD, NEW = b"o" * 16, b"n" * 16
WORD = TopicZnode.path("t")


@pytest.fixture
async def broker(store: EmbeddedStore) -> BrokerWithLogs:
    return await broker_with_logs(store)


async def grow(store: EmbeddedStore, topic: str, topic_id: bytes, partitions: int) -> None:
    replicas = {number: ReplicaAssignment((1,)) for number in range(partitions)}
    await store.set(TopicZnode.path(topic), TopicZnode.encode(replicas, topic_id))


def before_reading(
    broker: BrokerWithLogs,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    act: Callable[[], Awaitable[None]],
) -> None:
    """`act` is done once, as soon as the store is asked for what is below `path`."""
    store: Any = broker.stale_logs._store
    children, done = store.children, list[str]()

    async def watched(asked: str, *arguments: Any) -> Any:
        if asked == path and not done:
            done.append(path)
            await act()
        return await children(asked, *arguments)

    monkeypatch.setattr(store, "children", watched)


def nameless(broker: BrokerWithLogs, number: int, end_offset: int) -> SimpleNamespace:
    log = broker.log_manager.add("t", number, ZERO_TOPIC_ID)
    log.end_offset = end_offset
    return log


async def test_a_log_without_an_id_and_a_place_is_set_aside_or_goes(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "t", NEW, 1)
    nameless(broker, 0, 3)  # may be the topic's own
    nameless(broker, 1, 3)
    nameless(broker, 2, 0)
    broker.log_manager.add("t", 3, OLD)  # somebody else's, and in nobody's way
    await broker.stale_logs.settle()
    assert broker.aside == ["t-1"] and broker.left() == ["t-0", "t-3"]
    assert broker.strays() == ["t-3"]
    # As often as one likes.
    await broker.stale_logs.settle()
    assert broker.aside == ["t-1"] and broker.left() == ["t-0", "t-3"]


async def test_a_topic_without_an_id_may_own_whatever_has_its_name(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "t", None, 1)
    for number, end_offset in ((1, 3), (2, 0)):
        nameless(broker, number, end_offset)
    await broker.stale_logs.settle()
    assert broker.aside == broker.strays() == [] and broker.left() == ["t-1", "t-2"]


@pytest.mark.parametrize("is_late", [True, False])
async def test_a_store_that_answers_from_the_past_is_synced_before_it_is_believed(
    broker: BrokerWithLogs,
    store: EmbeddedStore,
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    """A server that lags does not have the partition yet that the log was made for."""
    await write_topic(store, "t", NEW, 1)
    past = await store.get(WORD)
    if is_late:
        await grow(store, "t", NEW, 3)
    synced: list[str] = []
    get, sync = store.get, store.sync

    async def old_get(path: str, *arguments: Any) -> tuple[bytes | None, Stat]:
        return past if path == WORD and not synced else await get(path, *arguments)

    async def watched_sync(*arguments: Any) -> None:
        await sync(*arguments)
        synced.append("/")

    monkeypatch.setattr(store, "get", old_get)
    monkeypatch.setattr(store, "sync", watched_sync)
    nameless(broker, 1, 3)
    nameless(broker, 2, 0)
    await broker.stale_logs.settle()
    assert len(synced) == 1
    assert broker.left() == (["t-1", "t-2"] if is_late else []) and broker.strays() == []
    assert broker.aside == ([] if is_late else ["t-1"])


async def test_what_has_its_place_needs_no_sync_and_without_one_nothing_is_done(
    broker: BrokerWithLogs, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreError("the connection is lost")

    monkeypatch.setattr(store, "sync", fail)
    await write_topic(store, "t", NEW, 1)
    nameless(broker, 0, 3)
    await broker.stale_logs.settle()
    nameless(broker, 1, 0)
    with pytest.raises(StoreError):
        await broker.stale_logs.settle()
    assert broker.left() == ["t-0", "t-1"] and broker.aside == []


async def test_the_controllers_first_word_makes_such_logs_looked_at(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    await write_topic(store, "t", NEW, 1)
    for number, end_offset in ((0, 3), (1, 3), (2, 0)):
        nameless(broker, number, end_offset)
    known = {"t": [partition(0, leader=1, replicas=[1])]}
    assert await broker.told(known, ids={"t": NEW}, epoch=1) == ["t-0"]
    assert broker.aside == ["t-1"]


@pytest.mark.parametrize("end_offset", [0, 3])
async def test_a_log_that_is_told_its_id_while_the_store_is_asked_is_no_stray(
    broker: BrokerWithLogs,
    store: EmbeddedStore,
    monkeypatch: pytest.MonkeyPatch,
    end_offset: int,
) -> None:
    """The topic was made, or got the partition, after it was read; the order for it came."""
    log = nameless(broker, 0, end_offset)

    async def order() -> None:
        await write_topic(store, "t", NEW, 1)
        log.topic_id = NEW

    before_reading(broker, monkeypatch, EndedTopicZnode.parent(), order)
    await broker.stale_logs.settle()
    assert broker.left() == ["t-0"] and not log.is_stray and not broker.aside


@pytest.mark.parametrize(("topic_id", "end_offset"), [(NEW, 0), (ZERO_TOPIC_ID, 1)])
async def test_an_empty_log_that_is_used_again_meanwhile_is_not_deleted(
    broker: BrokerWithLogs,
    store: EmbeddedStore,
    monkeypatch: pytest.MonkeyPatch,
    topic_id: bytes,
    end_offset: int,
) -> None:
    """Another log goes into the trash first, which takes its time: a record was acknowledged."""
    how = Kept(1, 2, {0: (1,)}, {}, 0, {})
    await store.create(EndedTopicZnode.path(OLD), EndedTopicZnode.encode("kept", (1,), how))
    broker.log_manager.add("kept", 0, OLD)
    log = nameless(broker, 0, 0)

    async def keep(tp: TopicPartition) -> bool:
        log.topic_id, log.end_offset = topic_id, end_offset
        del broker.log_manager.by_partition[tp]
        return True

    monkeypatch.setattr(broker, "keep", keep, raising=False)
    await broker.stale_logs.settle()
    assert broker.left() == ["t-0"]


async def test_a_log_that_an_order_renames_meanwhile_keeps_the_name_that_it_got(
    broker: BrokerWithLogs, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic was resized or renamed. The log was in its own way, had to wait under another name,
    and the broker went on with an empty one."""
    await write_topic(store, "new", OLD, 1)
    old, new = TopicPartition("old", 0), TopicPartition("new", 0)
    log = broker.log_manager.add("old", 0, OLD)
    order = {new: log}

    async def load_settings(*_: object) -> None:
        await broker.log_manager.rename(order)
        broker.hosts.add(new)

    monkeypatch.setattr(broker.stale_logs, "_load_settings", load_settings)
    await broker.stale_logs.settle()
    assert broker.log_manager.new_names == ["new-0"]
    assert new in broker.hosts and broker.log_manager.get(old) is None


async def test_a_log_whose_new_name_is_taken_waits_under_a_name_of_its_own(
    broker: BrokerWithLogs, store: EmbeddedStore
) -> None:
    """Two topics have changed names."""
    for name, topic_id in (("a", NEW), ("b", OLD)):
        await write_topic(store, name, topic_id, 1)
    first, second = broker.log_manager.add("a", 0, OLD), broker.log_manager.add("b", 0, NEW)
    await broker.stale_logs.settle()
    assert (str(first.tp), str(second.tp)) == ("b-0", "a-0")
    assert len(broker.log_manager.new_names) == 3
