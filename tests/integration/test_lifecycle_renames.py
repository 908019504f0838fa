"""A topic gets another name: same id, same records, same groups (ADR 51)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from ottla.coordinator.groups.carrying import OffsetCarrier
from ottla.errors import ErrorCode
from ottla.metadata.renames import RenameZnode
from ottla.metadata.store import NoNodeError, Op
from ottla.metadata.znodes import ConfigZnode, TopicsZnode
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import messages as m
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster


async def rename(
    cluster: LocalCluster, old: str, new: str, topic_id: TopicId = ZERO_TOPIC_ID
) -> Any:
    """The result of the one rename of a request to the controller."""
    topic = m.RenameTopicsRequest.TopicRename(name=old, new_name=new, topic_id=topic_id)
    request = m.RenameTopicsRequest(topics=[topic], timeout_ms=20_000)
    return (await h.ask(cluster.controller, request, 0)).results[0]


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return int(consumer.committed([Position(topic, 0)], timeout=10)[0].offset)
    finally:
        consumer.close()


async def renames_left(cluster: LocalCluster) -> list[str]:
    try:
        return await cluster.controller.services.store.children(RenameZnode.parent())
    except NoNodeError:
        return []


async def until_no_rename(cluster: LocalCluster) -> None:
    async def none_left() -> bool:
        return not await renames_left(cluster)

    await h.until_true(none_left, "all renames are done or taken back")


async def test_a_renamed_topic_keeps_id_records_configs_and_groups(cluster: LocalCluster) -> None:
    await h.create(cluster, "old", [0, 1, 2], [1, 2, 0], retention_ms="123456789")
    await h.produce(cluster, "old", range(10))
    await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "old", 4)
    cache = cluster.controller.services.metadata_cache
    topic_id = cache.topic_id("old")

    result = await rename(cluster, "old", "new")

    assert (result.error_code, result.error_message) == (0, None)
    assert result.topic_id == topic_id
    assert (result.groups, result.group_ids) == (1, ["readers"])
    assert await renames_left(cluster) == []
    store = cluster.controller.services.store
    assert "old" not in await store.children(TopicsZnode.path())
    data, _ = await store.get(ConfigZnode.path(ConfigZnode.TOPICS, "new"))
    assert ConfigZnode.decode(data) == {"retention.ms": "123456789"}
    for node in cluster.nodes.values():
        metadata = node.services.metadata_cache
        assert (metadata.topic_id("new"), metadata.contains_topic("old")) == (topic_id, False)
        folders = {
            folder.name for folder in (cluster.folder / f"broker-{node.broker_id}").iterdir()
        }
        assert {"new-0", "new-1"} <= folders
        assert not folders & {"old-0", "old-1"}
        log = node.services.replica_manager.log_manager.get(TopicPartition("new", 0))
        assert log is not None
        assert log.settings.overrides == {"retention.ms": "123456789"}
    await cluster.until_all_know("new", 2, 3)
    await h.produce(cluster, "new", range(10, 15))
    values = await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "new", 11)
    assert values == [str(value).encode() for value in range(4, 15)]
    assert await asyncio.to_thread(committed, cluster, "readers", "old") < 0


async def test_a_group_is_not_told_that_it_has_no_offsets_under_the_new_name(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new name is there, the coordinators have not carried the offsets over yet: a consumer
    that heard of none would begin at the end."""
    await h.create(cluster, "old", [0, 1, 2])
    await h.produce(cluster, "old", range(10))
    await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "old", 4)
    may_carry, carry = asyncio.Event(), OffsetCarrier.carry

    async def slowly(self: OffsetCarrier, *names: Any) -> Any:
        await may_carry.wait()
        return await carry(self, *names)

    monkeypatch.setattr(OffsetCarrier, "carry", slowly)
    renaming = asyncio.create_task(rename(cluster, "old", "new"))
    await cluster.until_all_know("new", 1, 3)

    asked = asyncio.create_task(asyncio.to_thread(committed, cluster, "readers", "new"))
    await asyncio.sleep(0.5)
    assert not asked.done()
    may_carry.set()

    assert await asked == 4
    assert (await renaming).error_code == 0


async def test_asking_twice_and_asking_for_nonsense(cluster: LocalCluster) -> None:
    await h.create(cluster, "old", [0, 1])
    await h.create(cluster, "taken", [0, 1])
    topic_id = cluster.controller.services.metadata_cache.topic_id("old")
    refusals = [
        (("missing", "new"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("old", "taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (("old", "old"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (("old", "a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("old", "."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("old", ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("old", "x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (("old", "__consumer_offsets"), ErrorCode.INVALID_REQUEST),
    ]
    for (old, new), code in refusals:
        assert (await rename(cluster, old, new)).error_code == code, (old, new)
    await h.create(cluster, "with.dots", [0, 1])
    assert (await rename(cluster, "old", "with_dots")).error_code == 17
    for _ in range(2):
        assert (await rename(cluster, "old", "new", topic_id)).error_code == 0
    # Without the id nobody can tell a topic that was renamed from one that never was.
    assert (await rename(cluster, "old", "new")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    await h.create(cluster, "old", [2])
    assert (await rename(cluster, "new", "newer", b"\1" * 16)).error_code == (
        ErrorCode.INCONSISTENT_TOPIC_ID
    )


async def test_a_broker_that_was_away_finds_its_logs(cluster: LocalCluster) -> None:
    stays = cluster.controller.broker_id
    away, other = (broker_id for broker_id in range(3) if broker_id != stays)
    await h.create(cluster, "old", [away, stays], [stays, away])
    await h.produce(cluster, "old", range(5))
    await cluster.until_all_know("old", 2, 2)
    await cluster.stop(away)
    assert (await rename(cluster, "old", "new")).error_code == 0
    # Another topic takes the name, on the same broker.
    await h.create(cluster, "old", [stays, other])
    await h.produce(cluster, "old", range(100, 102))

    node = await cluster.start(away)

    await cluster.until_all_know("new", 2, 2)
    log = node.services.replica_manager.log_manager.get(TopicPartition("new", 0))
    assert log is not None
    assert log.folder.name == "new-0"
    assert log.end_offset == 5
    folders = {folder.name for folder in (cluster.folder / f"broker-{away}").iterdir()}
    assert not any(name.endswith("-stray") for name in folders)


async def test_a_controller_that_dies_at_any_write_leaves_the_old_name_or_the_new(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session ends before the n-th write of the rename; whoever comes next takes it back or
    finishes it, and the group is where it was."""
    await h.create(cluster, "name0", [0, 1, 2], [1, 2, 0])
    await h.produce(cluster, "name0", range(3))
    await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "name0", 2)
    names, taken_back, finished = ["name0"], 0, 0
    # Every third write: a new controller for each takes its time.
    for writes in range(0, 40, 3):
        old, new = names[-1], f"name{writes + 1}"
        node = cluster.controller
        session = cluster.store.engine.sessions.get(node.services.store.session_id)
        store, left, was_hit = node.services.store, writes, False
        multi = store.multi

        async def dying(
            ops: Sequence[Op],
            multi: Callable[[Sequence[Op]], Awaitable[Any]] = multi,
            session: Any = session,
        ) -> Any:
            nonlocal left, was_hit
            if not left and not was_hit:
                was_hit = True
                cluster.store.engine.expire_session(session)
            left -= 1
            return await multi(ops)

        topic_id = node.services.metadata_cache.topic_id(old)
        monkeypatch.setattr(store, "multi", dying)
        result = await rename(cluster, old, new)
        monkeypatch.undo()
        if not was_hit:
            assert result.error_code == 0
            break
        assert result.error_code == ErrorCode.NOT_CONTROLLER
        await h.until_controller_known(cluster)
        await until_no_rename(cluster)
        stored = set(await cluster.controller.services.store.children(TopicsZnode.path()))
        assert len(stored & {old, new}) == 1, writes
        names.append(new if new in stored else old)
        finished, taken_back = finished + (new in stored), taken_back + (old in stored)
        await cluster.until_all_know(names[-1], 2, 3)
        for other in cluster.nodes.values():
            assert other.services.metadata_cache.topic_id(names[-1]) == topic_id
        assert await asyncio.to_thread(committed, cluster, "readers", names[-1]) == 2
    else:
        raise AssertionError("a rename takes more than 40 writes")
    assert min(taken_back, finished) > 0
    values = await asyncio.to_thread(h.consume_and_commit, cluster, "readers", new, 1)
    assert values == [b"2"]


async def test_open_transactions_are_waited_for_and_then_refused(cluster: LocalCluster) -> None:
    await h.create(cluster, "old", [0, 1])

    def begin() -> Producer:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "writer", "acks": "all"}
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("old", b"in a transaction")
        producer.flush(10)
        return producer

    producer = await asyncio.to_thread(begin)
    renaming = asyncio.create_task(rename(cluster, "old", "new"))
    await cluster.until(
        lambda: cluster.controller.controller.renames.is_under_way("old"), "the rename has begun"
    )
    await asyncio.to_thread(producer.commit_transaction, 20)
    assert (await renaming).error_code == 0
    values = await asyncio.to_thread(h.consume_and_commit, cluster, "readers", "new", 1)
    assert values == [b"in a transaction"]
