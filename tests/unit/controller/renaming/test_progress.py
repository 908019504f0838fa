"""The way of a rename: fence, swap, carry; taken back or finished by the next controller."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.controller import Controller
from ottla.controller.renaming import progress
from ottla.controller.renaming.progress import CARRY, FENCE, RELEASE, Renamed
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.renames import RenamePhase, RenameZnode, StoredRename
from ottla.metadata.znodes import ConfigZnode, LeaderAndIsr, TopicZnode
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID = b"i" * 16
PATH = RenameZnode.path(ID)


@pytest.fixture
def ottla_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are written in the transaction that registers a broker; here they come later."""
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))


async def begin(cluster: ControlledCluster) -> Controller:
    """A controller that takes all brokers for Ottla's, and a topic."""
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    controller = await cluster.start_controller(0)
    await cluster.create_topic("old", {0: (0, 1), 1: (1, 2)}, topic_id=ID)
    cluster.clear()
    return controller


def stages(cluster: ControlledCluster) -> dict[int, list[int]]:
    return {
        broker_id: [request.stage for request in broker.of_type(m.CarryOffsetsRequest)]
        for broker_id, broker in cluster.brokers.items()
    }


async def test_fence_swap_carry(cluster: ControlledCluster, ottla_marks: None) -> None:
    controller = await begin(cluster)
    before = await cluster.state("old")
    ended = await controller.renames.rename("old", "new", ZERO_TOPIC_ID)
    assert ended == Renamed(ID, 0, 0, ())
    assert stages(cluster) == {0: [FENCE, CARRY], 1: [FENCE, CARRY], 2: [FENCE, CARRY]}
    assert not await cluster.exists(TopicZnode.path("old"))
    assert not await cluster.exists(ConfigZnode.path(ConfigZnode.TOPICS, "old"))
    assert not await cluster.exists(PATH)
    assert before is not None
    state = await cluster.state("new")
    assert state is not None
    assert state == LeaderAndIsr(0, before.leader_epoch + 1, before.isr, controller.epoch, 0)
    kinds = [type(request).__name__ for request in cluster.brokers[1].requests]
    assert kinds == [
        "CarryOffsetsRequest",
        "LeaderAndIsrRequest",
        "UpdateMetadataRequest",
        "CarryOffsetsRequest",
    ]
    [order] = cluster.brokers[1].of_type(m.LeaderAndIsrRequest)
    assert [(t.topic_name, t.topic_id) for t in order.topic_states] == [("new", ID)]
    # The controller goes on with it under the new name.
    await cluster.set_topic("new", {0: (0, 1), 1: (1, 2), 2: (2, 0)})
    assert await cluster.state("new", 2) is not None


async def test_open_transactions_end_the_attempt(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    cluster.brokers[1].open_transactions = 1
    ended = await controller.renames.rename("old", "new", ZERO_TOPIC_ID)
    assert isinstance(ended, KafkaError)
    assert ended.code is ErrorCode.CONCURRENT_TRANSACTIONS
    await cluster.settle()
    assert stages(cluster)[0] == [FENCE, RELEASE]
    assert stages(cluster)[1] == [FENCE] * (progress.MAX_ROUNDS + 1) + [RELEASE]
    assert await cluster.exists(TopicZnode.path("old"))
    assert not await cluster.exists(PATH)
    assert not controller.renames.is_under_way("old")


async def test_a_broker_that_goes_ends_the_attempt(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    cluster.brokers[2].answers.clear()
    renaming = asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
    await cluster.settle()
    assert controller.renames.is_under_way("new")
    await cluster.stop_broker(2)
    ended = await renaming
    assert isinstance(ended, KafkaError)
    assert ended.code is ErrorCode.REQUEST_TIMED_OUT
    assert not await cluster.exists(PATH)


async def test_an_answer_for_an_earlier_attempt_does_not_count(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """Between the two the coordinator lifts the first fence, and takes transactions."""
    controller = await begin(cluster)
    slow = cluster.brokers[0]
    slow.answers.clear()
    first = asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
    await cluster.settle()
    await cluster.stop_broker(2)
    assert isinstance(await first, KafkaError)
    second = asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
    await cluster.settle()
    # One answer, and no more.
    slow.answers.set()
    slow.answers.clear()
    await cluster.settle()
    assert not second.done() and await cluster.exists(TopicZnode.path("old"))
    slow.answers.set()
    assert await second == Renamed(ID, 0, 0, ())
    assert stages(cluster)[0] == [FENCE, RELEASE, FENCE, CARRY]


async def test_everybody_who_asks_hears_of_the_end(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    cluster.brokers[2].answers.clear()
    asking = [
        asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
        for _ in range(2)
    ]
    await cluster.settle()
    dry = await controller.renames.rename("old", "new", ZERO_TOPIC_ID, validate_only=True)
    assert isinstance(dry, KafkaError) and dry.code is ErrorCode.REQUEST_TIMED_OUT
    cluster.brokers[2].answers.set()
    ended = Renamed(ID, 0, 0, ())
    assert await asyncio.wait_for(asyncio.gather(*asking), 10) == [ended, ended]


async def test_strangers_are_never_asked(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("old", {0: (0, 1)}, topic_id=ID)
    ended = await controller.renames.rename("old", "new", ZERO_TOPIC_ID)
    assert isinstance(ended, KafkaError)
    assert ended.code is ErrorCode.UNSUPPORTED_VERSION
    assert stages(cluster) == {0: [], 1: [], 2: []}


async def test_every_partition_of_the_offsets_is_waited_for(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    await cluster.create_topic(OFFSETS_TOPIC, {0: (1,), 1: (2,)}, topic_id=b"o" * 16)
    cluster.clear()
    cluster.brokers[1].carried = [0]
    renaming = asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
    # Broker 2 is loading its partition: it is asked again and again.
    await eventually(lambda: len(stages(cluster)[2]) >= 5)
    assert not renaming.done()
    assert controller.renames.is_under_way("old")
    assert cluster.brokers[2].of_type(m.CarryOffsetsRequest)[-1].partitions == [1]
    assert stages(cluster)[1] == [FENCE, CARRY]
    cluster.brokers[2].carried = [1]
    assert await renaming == Renamed(ID, 0, 0, ())


async def test_the_next_controller_takes_back_or_finishes(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    await cluster.create_topic("other", {0: (0, 1)}, topic_id=b"p" * 16)
    await cluster.kill_controller(controller)
    await cluster.create_path(RenameZnode.parent())
    fenced = StoredRename("other", "else", RenamePhase.FENCING)
    await cluster.admin.create(RenameZnode.path(b"p" * 16), RenameZnode.encode(fenced))
    # Half done: the new name stands, nothing else.
    moving = StoredRename("old", "new", RenamePhase.MOVING)
    await cluster.admin.create(PATH, RenameZnode.encode(moving))
    data, _ = await cluster.admin.get(TopicZnode.path("old"))
    await cluster.admin.create(TopicZnode.path("new"), data)
    cluster.clear()
    await cluster.start_controller(1)
    assert not await cluster.exists(RenameZnode.path(b"p" * 16))
    assert await cluster.exists(TopicZnode.path("other"))
    assert not await cluster.exists(TopicZnode.path("old"))
    assert (await cluster.state("new", 1)) is not None
    # Coordinators that came since the fence hear of the rename before they hear of the new name.
    assert stages(cluster) == {broker_id: [FENCE, CARRY] for broker_id in range(3)}
    kinds = [type(request).__name__ for request in cluster.brokers[1].requests]
    assert kinds[0] == "CarryOffsetsRequest"
    assert not await cluster.exists(PATH)


async def test_who_came_back_unseen_does_not_lead_under_the_new_name(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    """Its state is written again and younger than its registration then (ADR 22)."""
    controller = await begin(cluster)
    before = await cluster.state("old", 0)
    assert before is not None and len(before.isr) > 1
    await cluster.kill_controller(controller)
    await cluster.create_path(RenameZnode.parent())
    moving = StoredRename("old", "new", RenamePhase.MOVING)
    await cluster.admin.create(PATH, RenameZnode.encode(moving))
    data, _ = await cluster.admin.get(TopicZnode.path("old"))
    await cluster.admin.create(TopicZnode.path("new"), data)
    await cluster.stop_broker(before.leader)
    await cluster.start_broker(before.leader)
    await cluster.start_controller(2)
    state = await cluster.state("new", 0)
    assert state is not None
    assert before.leader not in (state.leader, *state.isr)


async def test_a_deletion_of_the_new_name_waits(
    cluster: ControlledCluster, ottla_marks: None
) -> None:
    controller = await begin(cluster)
    await cluster.create_topic(OFFSETS_TOPIC, {0: (1,)}, topic_id=b"o" * 16)
    cluster.brokers[1].answers.clear()
    renaming = asyncio.create_task(controller.renames.rename("old", "new", ZERO_TOPIC_ID))
    await cluster.settle()
    cluster.brokers[1].answers.set()
    await eventually(lambda: cluster.exists(TopicZnode.path("new")))
    await cluster.admin.create("/admin/delete_topics/new")
    for _ in range(200):
        await asyncio.sleep(0)
    assert await cluster.exists(TopicZnode.path("new"))
    cluster.brokers[1].carried = [0]
    assert isinstance(await renaming, Renamed)
    await cluster.settle()
    assert not await cluster.exists(TopicZnode.path("new"))
