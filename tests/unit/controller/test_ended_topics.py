"""Entries of deleted topics: written before the znode goes, taken over, called off, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.controller import ended_topics
from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.store import Create, Delete, NoAuthError, Op, OpResult
from ottla.metadata.znodes import TopicZnode
from ottla.zk.embedded import EmbeddedStore
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID = b"i" * 16


async def entry(cluster: ControlledCluster, topic_id: bytes = ID) -> EndedTopic | None:
    if not await cluster.exists(EndedTopicZnode.path(topic_id)):
        return None
    return EndedTopicZnode.decode((await cluster.admin.get(EndedTopicZnode.path(topic_id)))[0])


async def mark(cluster: ControlledCluster, *broker_ids: int) -> None:
    """These brokers, which are down by now, were Ottla's."""
    for broker_id in broker_ids:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))


async def is_gone(cluster: ControlledCluster, topic: str = "t") -> bool:
    return not await cluster.exists(TopicZnode.path(topic))


async def test_it_names_all_of_ottlas_brokers_that_are_down(cluster: ControlledCluster) -> None:
    """Also those that are no replicas: one may have a log from before a move."""
    await mark(cluster, 7, 8)
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    await cluster.delete_topic("t")
    await eventually(lambda: is_gone(cluster))
    assert await entry(cluster) == EndedTopic("t", (7, 8))


async def test_it_stands_before_the_znode_goes(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mark(cluster, 7)
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    seen: list[str] = []
    multi = EmbeddedStore.multi

    async def watched(store: EmbeddedStore, ops: list[Op]) -> list[OpResult]:
        for op in ops:
            if isinstance(op, Create | Delete) and ("/t" in op.path or "ended" in op.path):
                seen.append(f"{type(op).__name__} {op.path}")
        return await multi(store, ops)

    monkeypatch.setattr(EmbeddedStore, "multi", watched)
    await cluster.delete_topic("t")
    await eventually(lambda: not controller.is_queued_for_deletion("t"))
    written = f"Create {EndedTopicZnode.path(ID)}"
    gone = [line for line in seen if line.startswith("Delete /brokers/topics/t")]
    assert len(gone) == 4 and max(n for n, x in enumerate(seen) if x == written) < min(
        seen.index(line) for line in gone
    )


async def test_without_it_the_znode_stays(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mark(cluster, 7)
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    multi = EmbeddedStore.multi

    async def refusing(store: EmbeddedStore, ops: list[Op]) -> list[OpResult]:
        if any("/ottla" in op.path for op in ops):
            return [
                OpResult(error=NoAuthError(op.path)) if i else OpResult()
                for i, op in enumerate(ops)
            ]
        return await multi(store, ops)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedStore, "multi", refusing)
        await cluster.delete_topic("t")
        await cluster.settle()
        assert await cluster.exists(TopicZnode.path("t"))
        assert await cluster.exists("/admin/delete_topics/t")
    await cluster.kill_controller(controller)
    await cluster.start_controller(1)
    await eventually(lambda: is_gone(cluster))
    assert await entry(cluster) == EndedTopic("t", (7,))


async def test_a_controller_that_died_after_writing_it(cluster: ControlledCluster) -> None:
    """Its successor goes on, and who is down now counts."""
    await mark(cluster, 7)
    await cluster.create_path(EndedTopicZnode.parent())
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    await cluster.admin.create(EndedTopicZnode.path(ID), EndedTopicZnode.encode("t", [1]))
    await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(0)
    await eventually(lambda: is_gone(cluster))
    assert await entry(cluster) == EndedTopic("t", (7,))


@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_deletion_that_was_called_off_leaves_none(
    cluster: ControlledCluster, is_asked: bool
) -> None:
    await mark(cluster, 7)
    await cluster.create_path(EndedTopicZnode.parent())
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    await cluster.admin.create(EndedTopicZnode.path(ID), EndedTopicZnode.encode("t", [7]))
    if is_asked:
        await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(0, delete_topic_enable=False)
    assert await entry(cluster) is None and await cluster.exists(TopicZnode.path("t"))


async def test_a_topic_written_again_with_its_id_has_not_ended(cluster: ControlledCluster) -> None:
    await mark(cluster, 7)
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    await cluster.delete_topic("t")
    await eventually(lambda: is_gone(cluster))
    await cluster.settle()
    assert await entry(cluster) == EndedTopic("t", (7,))
    await cluster.create_topic("t", {0: (1, 2)}, topic_id=ID)
    assert await entry(cluster) is None


async def test_a_broker_that_is_not_ottlas_any_more_is_not_waited_for(
    cluster: ControlledCluster,
) -> None:
    """A broker that never returns: its mark is removed by hand, and the next controller sees."""
    await mark(cluster, 7)
    await cluster.create_path(EndedTopicZnode.parent())
    for topic_id, data in (
        (ID, EndedTopicZnode.encode("t", [6, 7])),
        (b"j" * 16, EndedTopicZnode.encode("u", [6])),
        (b"k" * 16, b"garbage"),
    ):
        await cluster.admin.create(EndedTopicZnode.path(topic_id), data)
    await cluster.admin.create(f"{EndedTopicZnode.parent()}/notes", b"by hand")
    await cluster.start_controller(0)
    assert await entry(cluster) == EndedTopic("t", (7,))
    assert await entry(cluster, b"j" * 16) == EndedTopic("u", ())
    data, _ = await cluster.admin.get(EndedTopicZnode.path(b"k" * 16))
    assert data == b"garbage"


@pytest.mark.parametrize(("limit", "dead"), [("MAX_SETTLED", False), ("MAX_WAITING", True)])
async def test_only_so_many_are_kept(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch, limit: str, dead: bool
) -> None:
    monkeypatch.setattr(ended_topics, limit, 2)
    await mark(cluster, *([7] if dead else []))
    await cluster.create_path(EndedTopicZnode.parent())
    brokers = [7] if dead else []
    for number in range(4):
        data = EndedTopicZnode.encode(f"t{number}", brokers)
        await cluster.admin.create(EndedTopicZnode.path(bytes([number]) * 16), data)
    await cluster.start_controller(0)
    left: list[Any] = [await entry(cluster, bytes([number]) * 16) for number in range(4)]
    assert [e and e.topic for e in left] == [None, None, "t2", "t3"]
