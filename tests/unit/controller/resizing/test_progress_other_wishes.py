"""A resize, and what else somebody wants of the topic meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.controller import Controller
from ottla.controller.renaming.progress import Renamed
from ottla.controller.resizing import progress
from ottla.controller.resizing.progress import OPEN_WRITES, RELEASE, Begun, Fenced, Resized
from ottla.controller.trash import keeping
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.resizes import ResizePhase, ResizeZnode
from ottla.metadata.znodes import ConfigZnode, DeleteTopicZnode, TopicZnode
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID, SHADOW_ID = b"i" * 16, b"s" * 16


@pytest.fixture
async def controller(cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """All brokers are Ottla's; topic `t` has one partition and is to have three."""
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    cluster.brokers[1].carried = [0]  # it leads the only partition of __consumer_offsets
    cluster.brokers[0].ends = {0: 10}
    made = await cluster.start_controller(0)
    await cluster.create_topic(OFFSETS_TOPIC, {0: (1,)}, topic_id=b"o" * 16)
    await cluster.create_topic("t", {0: (0, 1)}, topic_id=ID)
    return made


async def begin(cluster: ControlledCluster, controller: Controller) -> str:
    """The shadow's name."""
    begun = await controller.resizes.begin(
        m.BeginResizeRequest(topic="t", partitions=3, partitioner="murmur2")
    )
    assert begun is not None and not isinstance(begun, KafkaError)
    shadow = begun.resize.shadow
    await cluster.create_topic(shadow, dict.fromkeys(range(3), (0, 1)), topic_id=SHADOW_ID)
    return shadow


async def fence(
    controller: Controller, number: int = -1, topic_id: bytes = ID
) -> Fenced | KafkaError | None:
    request = m.FenceResizeRequest(topic="t", topic_id=topic_id, fence=number)
    return await controller.resizes.fence(request)


async def finish(
    cluster: ControlledCluster, controller: Controller, groups: list[tuple[str, dict[int, int]]]
) -> Resized | KafkaError | None:
    fenced = await fence(controller)
    assert isinstance(fenced, Fenced)
    request = m.FinishResizeRequest(topic="t", shadow_id=SHADOW_ID, fence=fenced.fence)
    return await controller.resizes.finish(request, groups)


async def until_swapped(controller: Controller) -> None:
    await eventually(lambda: any(r.is_swapped for r in controller.resizes.under_way() or ()))


def code(outcome: object) -> ErrorCode | None:
    return outcome.code if isinstance(outcome, KafkaError) else None


async def test_a_rename_waits_for_its_end(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """Offsets and the fence go by the topic's name."""
    await begin(cluster, controller)
    refused = await controller.renames.rename("t", "u", ZERO_TOPIC_ID)
    assert code(refused) is ErrorCode.REASSIGNMENT_IN_PROGRESS
    cluster.brokers[1].switches_late = True
    finishing = asyncio.create_task(finish(cluster, controller, []))
    await until_swapped(controller)
    refused = await controller.renames.rename("t", "u", ZERO_TOPIC_ID)
    assert code(refused) is ErrorCode.REASSIGNMENT_IN_PROGRESS
    cluster.brokers[1].switches_late = False
    assert await finishing == Resized(SHADOW_ID, 0, 0)
    renamed = await controller.renames.rename("t", "u", ZERO_TOPIC_ID)
    assert renamed == Renamed(SHADOW_ID, 0, 0, ())


async def test_a_deletion_waits_until_groups_are_told(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """Offsets that come after the deletion would be taken for those of the next topic `t`."""
    await begin(cluster, controller)
    cluster.brokers[1].switches_late = True
    finishing = asyncio.create_task(finish(cluster, controller, []))
    await until_swapped(controller)
    await cluster.admin.create(DeleteTopicZnode.path("t"))
    await asyncio.sleep(0.3)
    assert await cluster.exists(TopicZnode.path("t"))
    cluster.brokers[1].switches_late = False
    assert await finishing == Resized(SHADOW_ID, 0, 0)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path("t"))
    assert not await cluster.exists(ResizeZnode.path(ID))


async def test_a_deletion_waits_also_when_a_broker_with_a_replica_comes(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """For which a deletion may wait as well."""

    def is_told(change: str) -> bool:
        events = controller.journal.recent()
        return any((event.broker, event.cause) == (0, change) for event in events)

    await begin(cluster, controller)
    cluster.brokers[1].switches_late = True
    finishing = asyncio.create_task(finish(cluster, controller, []))
    await until_swapped(controller)
    await cluster.admin.create(DeleteTopicZnode.path("t"))
    await eventually(lambda: controller.is_queued_for_deletion("t"))
    await cluster.stop_broker(0)
    await eventually(lambda: is_told("dead"))
    await cluster.start_broker(0)
    await eventually(lambda: is_told("new"))
    await asyncio.sleep(0.3)
    assert [b.of_type(m.StopReplicaRequest) for b in cluster.brokers.values()] == [[], [], []]
    cluster.brokers[1].switches_late = False
    assert await finishing == Resized(SHADOW_ID, 0, 0)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path("t"))
    assert not await cluster.exists(ResizeZnode.path(ID))


async def test_consumers_wait_for_a_coordinator_that_is_away_for_long(
    cluster: ControlledCluster, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its groups know places in the old topic: there they would skip records of the new one."""
    monkeypatch.setattr(progress, "TICK_S", 0.01)
    monkeypatch.setattr(progress, "MAX_CLOSED_TICKS", 3)
    monkeypatch.setattr(progress, "HOLD_TICKS", 2)
    await begin(cluster, controller)
    cluster.brokers[1].switches_late = True
    cluster.clear()
    assert await finish(cluster, controller, []) == Resized(SHADOW_ID, 0, 0)

    def stages() -> list[int]:
        return [order.stage for order in cluster.brokers[0].of_type(m.ResizeOrderRequest)]

    await asyncio.sleep(0.2)
    assert OPEN_WRITES in stages() and RELEASE not in stages()
    assert await cluster.exists(ResizeZnode.path(ID))
    cluster.brokers[1].switches_late = False
    await eventually(lambda: RELEASE in stages())
    assert not await cluster.exists(ResizeZnode.path(ID))


@pytest.mark.parametrize("is_fenced", [False, True])
async def test_a_topic_that_is_deleted_takes_its_shadow_along(
    cluster: ControlledCluster, controller: Controller, is_fenced: bool
) -> None:
    shadow = await begin(cluster, controller)
    if is_fenced:
        assert isinstance(await fence(controller), Fenced)
    await cluster.delete_topic("t")
    assert not await cluster.exists(TopicZnode.path("t"))
    assert not await cluster.exists(TopicZnode.path(shadow))
    assert not await cluster.exists(ResizeZnode.path(ID))
    assert controller.resizes.under_way() == []


async def test_ids_of_another_topic(cluster: ControlledCluster, controller: Controller) -> None:
    await begin(cluster, controller)
    assert code(await fence(controller, topic_id=b"x" * 16)) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert await fence(controller, topic_id=ZERO_TOPIC_ID) == Fenced(1, {0: 10})
    for topic_id, shadow_id in ((b"x" * 16, SHADOW_ID), (ID, b"x" * 16)):
        request = m.FinishResizeRequest(topic="t", topic_id=topic_id, shadow_id=shadow_id, fence=1)
        ended = await controller.resizes.finish(request, [])
        assert code(ended) is ErrorCode.INCONSISTENT_TOPIC_ID


async def test_everybody_who_asks_hears_of_the_end(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """Two at once, one whose connection broke, and one who asks for the fence meanwhile."""
    await begin(cluster, controller)
    cluster.brokers[2].answers.clear()
    fences = [asyncio.create_task(fence(controller)) for _ in range(2)]
    await cluster.settle()
    cluster.brokers[2].answers.set()
    assert await asyncio.wait_for(asyncio.gather(*fences), 10) == [
        Fenced(1, {0: 10}),
        Fenced(1, {0: 10}),
    ]
    cluster.brokers[1].answers.clear()
    request = m.FinishResizeRequest(topic="t", topic_id=ID, shadow_id=SHADOW_ID, fence=1)
    groups = [("g", {0: 5})]
    ends = [asyncio.create_task(controller.resizes.finish(request, groups)) for _ in range(2)]
    await cluster.settle()
    assert await asyncio.wait_for(fence(controller, 1), 10) == Fenced(1, {0: 10})
    cluster.brokers[1].members = 2
    cluster.brokers[1].answers.set()
    ended = Resized(SHADOW_ID, 0, 2)
    assert await asyncio.wait_for(asyncio.gather(*ends), 10) == [ended, ended]
    # Consumers do not read yet, but whoever asks need not wait for that.
    assert await asyncio.wait_for(controller.resizes.finish(request, groups), 2) == ended


@pytest.mark.parametrize("offsets", [{3: 0}, {-1: 0}, {0: -1}])
async def test_places_that_the_new_topic_has_not(
    cluster: ControlledCluster, controller: Controller, offsets: dict[int, int]
) -> None:
    await begin(cluster, controller)
    ended = await finish(cluster, controller, [("g", {0: 1}), ("h", offsets)])
    assert code(ended) is ErrorCode.INVALID_REQUEST
    assert await finish(cluster, controller, [("g", {0: 1})]) == Resized(SHADOW_ID, 0, 0)


async def test_a_shadow_that_was_made_again_has_not_what_was_copied(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """Deleted and made anew under one fence, by hand or by a second command."""
    shadow = await begin(cluster, controller)
    assert await fence(controller) == Fenced(1, {0: 10})
    await cluster.delete_topic(shadow)
    await cluster.create_topic(shadow, dict.fromkeys(range(3), (0, 1)), topic_id=b"z" * 16)
    request = m.FinishResizeRequest(topic="t", topic_id=ID, shadow_id=SHADOW_ID, fence=1)
    ended = await controller.resizes.finish(request, [])
    assert code(ended) is ErrorCode.INCONSISTENT_TOPIC_ID
    data, _ = await cluster.admin.get(TopicZnode.path("t"))
    assert TopicZnode.decode(data).topic_id == ID
    assert await fence(controller) == Fenced(2, {0: 10})
    request = m.FinishResizeRequest(topic="t", topic_id=ID, shadow_id=b"z" * 16, fence=2)
    assert await controller.resizes.finish(request, []) == Resized(b"z" * 16, 0, 0)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, "__ottla_lifecycle"])
async def test_topics_of_ottlas_own_keep_their_shape(
    cluster: ControlledCluster, controller: Controller, topic: str
) -> None:
    if topic != OFFSETS_TOPIC:
        await cluster.create_topic(topic, {0: (0, 1)}, topic_id=b"l" * 16)
    begun = await controller.resizes.begin(
        m.BeginResizeRequest(topic=topic, partitions=3, partitioner="murmur2")
    )
    assert code(begun) is ErrorCode.INVALID_REQUEST


async def keep_when_deleted(cluster: ControlledCluster) -> None:
    configs = ConfigZnode.encode({"ottla.delete.retention.ms": "86400000"})
    await cluster.admin.set(ConfigZnode.path(ConfigZnode.TOPICS, "t"), configs)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MAX_KEPT", "the trash is full: 0 topics (purge some)"),
        (
            "MAX_ENTRY_BYTES",
            "it is too large for the trash (set ottla.delete.retention.ms=0)",
        ),
    ],
)
async def test_what_the_trash_cannot_take_stays_as_it_is(
    cluster: ControlledCluster,
    controller: Controller,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    reason: str,
) -> None:
    """As it does when it is to be deleted, and with the same words."""
    await keep_when_deleted(cluster)
    refusal = f"Topic 't' is not resized: {reason}."
    with monkeypatch.context() as full:
        full.setattr(keeping, limit, 0)
        request = m.BeginResizeRequest(topic="t", partitions=3, partitioner="murmur2")
        refused = await controller.resizes.begin(request)
        assert code(refused) is ErrorCode.POLICY_VIOLATION
        assert isinstance(refused, KafkaError) and refused.message == refusal
    await begin(cluster, controller)
    with monkeypatch.context() as full:
        full.setattr(keeping, limit, 0)
        refused = await finish(cluster, controller, [])
        # A command would try again at once, were it something that passes.
        assert code(refused) is ErrorCode.POLICY_VIOLATION
        assert isinstance(refused, KafkaError) and refused.message == refusal
    data, _ = await cluster.admin.get(TopicZnode.path("t"))
    assert TopicZnode.decode(data).topic_id == ID
    assert not await cluster.exists(EndedTopicZnode.path(ID))
    assert [r.phase for r in controller.resizes.under_way() or ()] == [ResizePhase.COPYING]
    assert await finish(cluster, controller, []) == Resized(SHADOW_ID, 0, 0)
    entry = EndedTopicZnode.decode((await cluster.admin.get(EndedTopicZnode.path(ID)))[0])
    assert entry is not None and entry.kept is not None


async def test_the_old_topic_waits_with_a_resize_of_its_own(
    cluster: ControlledCluster, controller: Controller
) -> None:
    """It is back from the trash with its id, by which the first resize is known."""

    async def begin_again() -> object:
        request = m.BeginResizeRequest(topic="was-t", partitions=2, partitioner="murmur2")
        return await controller.resizes.begin(request)

    await keep_when_deleted(cluster)
    await begin(cluster, controller)
    cluster.brokers[1].switches_late = True
    finishing = asyncio.create_task(finish(cluster, controller, []))
    await until_swapped(controller)
    assert await controller.trash.undelete_topic("t", ID, "was-t") == ID
    before, _ = await cluster.admin.get(ResizeZnode.path(ID))
    refused = await begin_again()
    assert code(refused) is ErrorCode.REQUEST_TIMED_OUT
    assert "'t'" in str(refused)
    assert (await cluster.admin.get(ResizeZnode.path(ID)))[0] == before
    cluster.brokers[1].switches_late = False
    assert await finishing == Resized(SHADOW_ID, 0, 0)
    assert isinstance(await begin_again(), Begun)
