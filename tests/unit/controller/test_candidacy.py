"""Elections of controllers: who wins, who is fenced, and what a successor finishes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.controller import candidacy
from ottla.controller.events import Expire
from ottla.controller.interpreter import ControllerMovedError
from ottla.metadata.store import ConnectionLossError, CreateMode
from ottla.metadata.znodes import ConfigZnode, LeaderAndIsr, ReplicaAssignment, TopicZnode
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.controller.controlled_cluster import ControlledCluster, eventually


async def test_the_first_controller_has_epoch_one(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(2)
    assert controller.is_active and controller.epoch == 1
    assert (await cluster.admin.get("/controller_epoch"))[0] == b"1"
    stored = await cluster.json("/controller")
    assert (stored["version"], stored["brokerid"]) == (1, 2)
    assert isinstance(stored["timestamp"], str)
    assert (await cluster.admin.get("/feature"))[0] == b'{"features":{},"version":1,"status":1}'
    # Even with nothing to do, every broker hears who the controller is.
    for broker in cluster.brokers.values():
        (request,) = broker.requests
        assert (request.controller_id, request.controller_epoch) == (2, 1)


async def test_a_second_one_waits_and_takes_over(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    second = await cluster.start_controller(1)
    assert first.is_active and not second.is_active
    await cluster.kill_controller(first)
    await eventually(lambda: second.is_active)
    assert second.epoch == 2


async def test_a_successor_finishes_half_done_creation_and_deletion(
    cluster: ControlledCluster,
) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("old", {0: (1, 2)}, topic_id=b"o" * 16)
    await cluster.kill_controller(first)
    # Nobody is in office: one topic is wanted, half of another exists, one shall go.
    await cluster.create_topic("wanted", {0: (1, 2), 1: (2, 1)}, topic_id=b"w" * 16)
    await cluster.create_topic("half", {0: (2, 0)}, topic_id=None)
    await cluster.create_path("/brokers/topics/half/partitions/0")
    await cluster.admin.create("/admin/delete_topics/old")
    cluster.clear()
    await cluster.start_controller(1)
    assert await cluster.state("wanted", 1) == LeaderAndIsr(2, 0, (2, 1), 2, 0)
    assert await cluster.state("half") == LeaderAndIsr(2, 0, (2, 0), 2, 0)
    assert "topic_id" in await cluster.json("/brokers/topics/half")
    await eventually(lambda: _is_gone(cluster, "old"))


async def _is_gone(cluster: ControlledCluster, topic: str) -> bool:
    return not await cluster.exists(f"/brokers/topics/{topic}") and not await cluster.exists(
        f"/admin/delete_topics/{topic}"
    )


async def test_a_successor_finishes_a_deletion_whose_topic_znode_is_gone(
    cluster: ControlledCluster,
) -> None:
    await cluster.admin.create(ConfigZnode.path("topics", "t"), ConfigZnode.encode({}))
    await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(0)
    assert not await cluster.exists("/admin/delete_topics/t")
    assert not await cluster.exists("/config/topics/t")


async def test_failover_elects_for_brokers_that_died_meanwhile(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1), 1: (1, 2)})
    await cluster.kill_controller(first)
    await cluster.stop_broker(2)
    cluster.clear()
    await cluster.start_controller(1)
    state = await cluster.state("t", 0)
    assert state is not None
    assert (state.leader, state.isr, state.controller_epoch) == (1, (1,), 2)
    assert (await cluster.state("t", 1)).isr == (1,)
    first_request = cluster.brokers[1].requests[0]
    assert isinstance(first_request, m.UpdateMetadataRequest)
    assert first_request.topic_states == []


async def _restart(cluster: ControlledCluster, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        await cluster.stop_broker(broker_id)
        await cluster.start_broker(broker_id)


async def test_failover_passes_over_a_leader_that_restarted_meanwhile(
    cluster: ControlledCluster,
) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1, 0), 1: (1, 2, 0), 2: (2,)})
    await cluster.kill_controller(first)
    await _restart(cluster, 2)
    await cluster.start_controller(0)
    led = await cluster.state("t", 0)
    assert led is not None and (led.leader, led.leader_epoch, led.isr) == (1, 1, (1, 0))
    followed = await cluster.state("t", 1)
    assert followed is not None
    assert (followed.leader, followed.leader_epoch, followed.isr) == (1, 1, (1, 0))
    alone = await cluster.state("t", 2)
    assert alone is not None and (alone.leader, alone.leader_epoch, alone.isr) == (2, 0, (2,))


async def test_failover_leaves_an_isr_whose_members_all_restarted_and_notices_the_next_one(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1)})
    for restarted, expected in (
        ((1, 2), (2, 1, (2, 1))),
        ((), (2, 1, (2, 1))),
        ((2,), (1, 2, (1,))),
    ):
        await cluster.kill_controller(controller)
        await _restart(cluster, *restarted)
        controller = await cluster.start_controller(0)
        state = await cluster.state("t", 0)
        assert state is not None
        assert (state.leader, state.leader_epoch, state.isr) == expected


async def test_an_old_controller_is_fenced(cluster: ControlledCluster) -> None:
    """It lost its office without noticing: its next write is refused and it resigns."""
    old = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.admin.set("/controller_epoch", b"2")
    await cluster.admin.create("/brokers/topics/u", TopicZnode.encode({0: ReplicaAssignment((1,))}))
    await eventually(lambda: not old.is_active)
    assert await cluster.state("u") is None
    assert "topic_id" not in await cluster.json("/brokers/topics/u")


async def test_an_expired_session_resigns_and_comes_back(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    store = cluster.controller_stores[0]
    store.expire()
    controller.on_session_expired()
    await cluster.settle()
    assert not controller.is_active
    await controller.on_new_session()
    assert controller.is_active and controller.epoch == 2


async def test_calls_that_waited_for_a_lost_controller_are_answered(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await controller.stop()
    waiting = asyncio.ensure_future(controller.alter_isr(m.AlterPartitionRequest()))
    await asyncio.sleep(0)
    controller.on_session_expired()
    assert (await waiting).error_code == 41


async def test_deleting_the_controller_node_moves_the_controller(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await cluster.admin.delete("/controller")
    await eventually(lambda: controller.epoch == 2 and controller.is_active)


async def test_garbage_in_controller_epoch_keeps_everyone_from_office(
    cluster: ControlledCluster,
) -> None:
    await cluster.admin.create("/controller_epoch", b"many")
    controller = await cluster.start_controller(0)
    assert not controller.is_active
    await cluster.admin.set("/controller_epoch", b"7")
    await eventually(lambda: controller.is_active)
    assert controller.epoch == 8


async def test_a_failure_in_office_frees_it_for_a_fresh_start(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await cluster.start_controller(0)
    first_office = (await cluster.admin.get("/controller"))[1].czxid
    failed = asyncio.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr("ottla.controller.decisions.brokers.compare", fail)
        await cluster.start_broker(5)
        await failed.wait()
    await eventually(lambda: controller.is_active and controller.epoch == 2)
    assert (await cluster.admin.get("/controller"))[1].czxid > first_office
    # The office is held before the brokers have heard of it.
    (told, *_) = await eventually(lambda: cluster.brokers[5].of_type(m.UpdateMetadataRequest))
    assert told.controller_epoch == 2


class LosingStore(EmbeddedStore):
    """Loses the answer of the next multi after it was applied."""

    lose = True

    async def multi(self, ops):  # type: ignore[no-untyped-def]
        results = await super().multi(ops)
        if self.lose:
            self.lose = False
            raise ConnectionLossError("/")
        return results


async def test_a_lost_answer_of_the_election_is_a_victory(cluster: ControlledCluster) -> None:
    store = LosingStore(cluster.engine)
    office = await candidacy.elect(store, cluster.runtime.clock, 1)
    assert office.epoch == 1
    assert office.epoch_zk_version == (await cluster.admin.exists("/controller_epoch")).version


async def test_a_node_of_our_id_under_another_session_is_no_victory(
    cluster: ControlledCluster,
) -> None:
    await cluster.admin.create("/controller_epoch", b"4")
    await cluster.admin.create(
        "/controller",
        b'{"version":1,"brokerid":1,"timestamp":"0"}',
        mode=CreateMode.EPHEMERAL,
    )
    store = EmbeddedStore(cluster.engine)
    with pytest.raises(ControllerMovedError):
        await candidacy.elect(store, cluster.runtime.clock, 1)


async def test_old_notifications_are_cleared_by_a_new_controller(
    cluster: ControlledCluster,
) -> None:
    for parent in ("/isr_change_notification/isr_change_", "/log_dir_event_notification/log_dir_"):
        await cluster.admin.create(parent, b"{", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await cluster.start_controller(0)
    assert await cluster.admin.children("/isr_change_notification") == []
    assert await cluster.admin.children("/log_dir_event_notification") == []


async def test_a_disabled_feature_node_is_enabled_and_garbage_is_left(
    cluster: ControlledCluster,
) -> None:
    await cluster.admin.create("/feature", b'{"features":{},"version":1,"status":0}')
    first = await cluster.start_controller(0)
    assert (await cluster.json("/feature"))["status"] == 1
    await cluster.kill_controller(first)
    await cluster.admin.set("/feature", b"]")
    second = await cluster.start_controller(1)
    assert second.is_active
    assert (await cluster.admin.get("/feature"))[0] == b"]"


async def test_an_election_that_an_expiry_overtakes_does_not_orphan_the_office(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Won under a session that ended meanwhile: the node must not stay without a controller."""
    won = candidacy.elect

    async def overtaken(*arguments: Any) -> candidacy.Office:
        office = await won(*arguments)
        monkeypatch.setattr(candidacy, "elect", won)
        cluster.controllers[0].on_session_expired()
        return office

    monkeypatch.setattr(candidacy, "elect", overtaken)
    controller = await cluster.start_controller(0)
    assert not controller.is_active and await cluster.exists("/controller")
    await controller.on_new_session()
    await eventually(lambda: controller.is_active)
    # One session later the office won under it stays, although the news of the end come late.
    controller._queue.put(Expire())
    await cluster.settle()
    assert controller.is_active
