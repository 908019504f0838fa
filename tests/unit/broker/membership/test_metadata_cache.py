"""What UpdateMetadata makes of the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.broker.membership.metadata_cache import LEADER_DURING_DELETE, MetadataCache
from ottla.types import ZERO_TOPIC_ID, Endpoint, TopicPartition
from tests.support.broker.cluster_messages import Update, broker, partition, update

ID_A, ID_B = b"a" * 16, b"b" * 16


def test_partitions_merge_and_brokers_are_replaced() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}, brokers=[broker(1), broker(2)]))
    cache.update(update({"t": [partition(1)], "u": [partition(0)]}, brokers=[broker(2)]))
    assert set(cache.topic_partitions("t")) == {0, 1}
    assert [info.id for info in cache.alive_brokers()] == [2]
    assert cache.broker(1) is None
    assert sorted(cache.topics()) == ["t", "u"]
    assert cache.contains(TopicPartition("t", 1))
    assert not cache.contains(TopicPartition("t", 2))
    assert not cache.contains(TopicPartition("v", 0))
    assert cache.controller_id == 1


def test_an_update_without_partitions_keeps_topics() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}))
    assert cache.update(update(controller_id=2)) == frozenset()
    assert cache.contains_topic("t")
    assert cache.controller_id == 2


def test_deletion_removes_partitions_and_at_last_the_topic_and_its_id() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0), partition(1)]}, ids={"t": ID_A}))
    cache.update(update({"t": [partition(0, leader=LEADER_DURING_DELETE)]}, ids={"t": ID_A}))
    assert set(cache.topic_partitions("t")) == {1}
    assert cache.topic_name(ID_A) == "t"
    cache.update(update({"t": [partition(1, leader=LEADER_DURING_DELETE)]}, ids={"t": ID_A}))
    assert not cache.contains_topic("t")
    assert cache.topic_name(ID_A) is None
    assert cache.topic_id("t") == ZERO_TOPIC_ID


def test_deleting_an_unknown_topic_adds_nothing() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0, leader=LEADER_DURING_DELETE)]}, ids={"t": ID_A}))
    assert not cache.contains_topic("t")
    assert cache.topic_name(ID_A) is None


def test_zero_ids_are_ignored_and_a_new_id_replaces_the_old() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}, ids={"t": ID_A}))
    cache.update(update({"t": [partition(0)]}))
    assert cache.topic_id("t") == ID_A
    cache.update(update({"t": [partition(0)]}, ids={"t": ID_B}))
    assert (cache.topic_id("t"), cache.topic_name(ID_A), cache.topic_name(ID_B)) == (
        ID_B,
        None,
        "t",
    )


def test_endpoints_by_listener() -> None:
    cache = MetadataCache()
    cache.update(update(brokers=[broker(3, rack="r")]))
    assert cache.endpoint(3, "PLAINTEXT") == Endpoint("PLAINTEXT", "host3", 9003)
    assert cache.endpoint(3, "OTHER") is None
    assert cache.endpoint(4, "PLAINTEXT") is None
    info = cache.broker(3)
    assert info is not None
    assert info.rack == "r"


def test_old_versions_list_partitions_and_addresses_flat() -> None:
    state = partition(0)
    state.topic_name = "t"
    old = Update.UpdateMetadataBroker(id=7, v0_host="old", v0_port=1)
    cache = MetadataCache()
    changed = cache.update(Update(ungrouped_partition_states=[state], live_brokers=[old]))
    assert changed == {"t"}
    assert cache.contains(TopicPartition("t", 0))
    assert cache.endpoint(7, "PLAINTEXT") == Endpoint("PLAINTEXT", "old", 1)


def test_listeners_hear_the_topics_named() -> None:
    cache = MetadataCache()
    heard: list[frozenset[str]] = []
    cache.add_listener(heard.append)
    cache.update(update({"t": [partition(0)], "u": [partition(0)]}))
    cache.remove_listener(heard.append)
    cache.update(update({"v": [partition(0)]}))
    assert heard == [{"t", "u"}]


async def test_wait_until_ends_with_the_update_that_fits() -> None:
    cache = MetadataCache()
    looks = 0

    def there() -> bool:
        nonlocal looks
        looks += 1
        return cache.contains_topic("t")

    waiting = asyncio.create_task(cache.wait_until({"t"}, there, 5_000))
    await asyncio.sleep(0)
    cache.update(update({"other": [partition(0)]}))
    assert looks == 1, "an update of other topics is no reason to look again"
    cache.update(update({"t": [partition(0)]}))
    assert await waiting is True


async def test_wait_until_times_out_and_leaves_nothing_behind() -> None:
    cache = MetadataCache()
    assert await cache.wait_until({"t"}, lambda: False, 10) is False
    assert cache._listeners == []


def test_derived_values_are_kept_until_topic_or_brokers_change() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)], "u": [partition(0)]}))
    built = 0

    def build(partitions: Mapping[int, object]) -> int:
        nonlocal built
        built += 1
        return len(partitions)

    def look(key: str = "key") -> int:
        return cache.derived("t", key, build)

    assert [look(), look(), built] == [1, 1, 1]
    cache.update(update({"u": [partition(1)]}))
    assert [look(), built] == [1, 1], "another topic, the same brokers"
    cache.update(update({"t": [partition(1)]}))
    assert [look(), built] == [2, 2]
    cache.update(update(brokers=[broker(2)]))
    assert [look(), look("other"), built] == [2, 2, 4]
    assert cache.derived("unknown", "key", build) == 0


def test_a_topic_with_another_id_starts_over() -> None:
    cache = MetadataCache()
    told: list[frozenset[str]] = []
    cache.update(update({"t": [partition(0), partition(1)]}, ids={"t": ID_A}))
    cache.add_listener(told.append)
    cache.update(update({"t": [partition(0)]}, ids={"t": ID_B}))
    assert set(cache.topic_partitions("t")) == {0}
    assert (cache.topic_name(ID_A), cache.topic_name(ID_B)) == (None, "t")
    # Once for the end of the old topic (its configs go too), once for the new one.
    assert told == [frozenset({"t"}), frozenset({"t"})]
    assert not cache.forget_other_life("t", ID_B) and cache.forget_other_life("t", ID_A)
    assert not cache.contains_topic("t")


def test_forgetting_tells_the_listeners_of_known_topics_only() -> None:
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}, ids={"t": ID_A}))
    told: list[frozenset[str]] = []
    cache.add_listener(told.append)
    life = cache.lives()["t"]
    cache.forget(["unknown"])
    assert told == [] and cache.lives()["t"] is life
    cache.forget(["t", "unknown"])
    assert told == [frozenset({"t"})] and cache.topic_name(ID_A) is None
    cache.update(update({"t": [partition(0)]}, ids={"t": ID_A}))
    assert cache.lives()["t"] is not life


def test_an_id_under_another_name_is_a_rename() -> None:
    cache = MetadataCache()
    heard: list[frozenset[str]] = []
    cache.add_listener(heard.append)
    cache.update(update({"old": [partition(0), partition(1)]}, ids={"old": ID_A}))
    cache.update(update({"new": [partition(0)]}, ids={"new": ID_A}))
    assert heard[-1] == {"old", "new"}
    assert not cache.contains_topic("old")
    assert (cache.topic_name(ID_A), cache.topic_id("old")) == ("new", ZERO_TOPIC_ID)
    assert cache.was_renamed("old")
    assert not cache.was_renamed("new")
    # Another topic takes the name.
    cache.update(update({"old": [partition(0)]}, ids={"old": ID_B}))
    assert not cache.was_renamed("old")
    cache.update(update({"old": [partition(0, leader=LEADER_DURING_DELETE)]}, ids={"old": ID_B}))
    assert not cache.was_renamed("old")
    # And back again.
    cache.update(update({"old": [partition(0)]}, ids={"old": ID_A}))
    assert cache.was_renamed("new")
    assert cache.topics() == ["old"]
