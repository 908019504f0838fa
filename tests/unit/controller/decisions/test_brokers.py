"""Brokers die, come back, restart unseen, change endpoints, lose directories, leave politely."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.decisions.brokers import Registered, compare, supports
from ottla.metadata.store import CreateMode
from ottla.metadata.znodes import (
    BrokerIdZnode,
    BrokerInfo,
    ConfigZnode,
    IsrChangeNotificationZnode,
    LeaderAndIsr,
    LogDirEventNotificationZnode,
    PreferredReplicaElectionZnode,
    TopicPartitionStateZnode,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually


def leader_and_isr_states(
    requests: list[m.LeaderAndIsrRequest],
) -> list[tuple[int, int, list[int]]]:
    return [
        (state.leader, state.leader_epoch, state.isr)
        for request in requests
        for topic in request.topic_states
        for state in topic.partition_states
    ]


async def test_death_of_a_leader_elects_the_next_in_sync_replica(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1, 0), 1: (0, 2)})
    cluster.clear()
    await cluster.stop_broker(2)
    await cluster.settle()
    # One epoch for the new leader; removing the dead one from the ISR was part of the election.
    assert await cluster.state("t", 0) == LeaderAndIsr(1, 1, (1, 0), 1, 1)
    # A follower's death is one epoch too: the ISR without it.
    assert await cluster.state("t", 1) == LeaderAndIsr(0, 1, (0,), 1, 1)
    assert cluster.brokers[2].requests == []
    states = leader_and_isr_states(cluster.brokers[1].of_type(m.LeaderAndIsrRequest))
    assert (1, 1, [1, 0]) in states
    metadata = cluster.brokers[0].of_type(m.UpdateMetadataRequest)[-1]
    assert [b.id for b in metadata.live_brokers] == [0, 1]


async def test_the_last_isr_member_stays_and_leads_again(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.stop_broker(1)
    await cluster.settle()
    assert await cluster.state("t") == LeaderAndIsr(-1, 2, (1,), 1, 2)
    await cluster.start_broker(2)
    await cluster.settle()
    assert await cluster.state("t") == LeaderAndIsr(-1, 2, (1,), 1, 2)
    await cluster.start_broker(1)
    await cluster.settle()
    assert await cluster.state("t") == LeaderAndIsr(1, 3, (1,), 1, 3)


async def test_unclean_election_only_where_the_topic_allows_it(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.stop_broker(1)
    await cluster.settle()
    await cluster.start_broker(2)
    await cluster.settle()
    assert (await cluster.state("t")).leader == -1
    allowed = ConfigZnode.encode({"unclean.leader.election.enable": "true"})
    await cluster.admin.set(ConfigZnode.path("topics", "t"), allowed)
    controller.enable_unclean_leader_election("other")
    await cluster.settle()
    assert (await cluster.state("t")).leader == -1
    numbers = controller.gauges()
    assert numbers["kafkacontroller_offlinepartitionscount"] == 1
    assert numbers["controllerstats_uncleanleaderelections_total"] == 0
    controller.enable_unclean_leader_election("t")
    await cluster.settle()
    assert await cluster.state("t") == LeaderAndIsr(2, 3, (2,), 1, 3)
    numbers = controller.gauges()
    assert numbers["kafkacontroller_offlinepartitionscount"] == 0
    assert numbers["kafkacontroller_preferredreplicaimbalancecount"] == 1
    assert numbers["controllerstats_uncleanleaderelections_total"] == 1


async def test_a_new_broker_hears_of_everything_before_leader_and_isr(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 7), 1: (2, 1)})
    cluster.clear()
    await cluster.start_broker(7)
    await cluster.settle()
    first, second = cluster.brokers[7].requests[:2]
    assert isinstance(first, m.UpdateMetadataRequest)
    assert [s.partition_index for s in first.topic_states[0].partition_states] == [0, 1]
    assert isinstance(second, m.LeaderAndIsrRequest)
    assert leader_and_isr_states([second]) == [(1, 0, [1])]
    # The others only learn who is alive.
    told = cluster.brokers[0].of_type(m.UpdateMetadataRequest)[0]
    assert [b.id for b in told.live_brokers] == [0, 1, 2, 7]
    assert told.topic_states == []


async def test_a_bounced_broker_is_a_failure_and_then_a_start(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    old_epoch = await cluster.broker_epoch(1)
    # Both changes happen before the controller can look.
    await asyncio.gather(
        cluster.registrations[1].delete(BrokerIdZnode.path(1)),
        cluster.registrations[1].create(
            BrokerIdZnode.path(1),
            BrokerIdZnode.encode(cluster.info(1)),
            mode=CreateMode.EPHEMERAL,
        ),
    )
    cluster.clear()
    await cluster.settle()
    assert await cluster.broker_epoch(1) > old_epoch
    assert [e.cause for e in controller.journal.recent() if e.kind == "broker"] == ["bounced"]
    assert await cluster.state("t") == LeaderAndIsr(2, 1, (2,), 1, 1)
    epochs = {request.broker_epoch for request in cluster.brokers[1].requests}
    assert epochs == {await cluster.broker_epoch(1)}
    assert leader_and_isr_states(cluster.brokers[1].of_type(m.LeaderAndIsrRequest)) == [(2, 1, [2])]


async def test_new_endpoints_are_told_but_not_a_new_rack(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    cluster.clear()
    changed = cluster.info(1, port=9999)
    await cluster.registrations[1].set(BrokerIdZnode.path(1), BrokerIdZnode.encode(changed))
    await cluster.settle()
    (request,) = cluster.brokers[0].requests
    assert request.live_brokers[1].endpoints[0].port == 9999
    cluster.clear()
    racked = BrokerIdZnode.encode(changed).replace(b'"jmx_port"', b'"rack":"r","jmx_port"')
    await cluster.registrations[1].set(BrokerIdZnode.path(1), racked)
    await cluster.settle()
    assert cluster.brokers[0].requests == []


async def test_a_registration_that_cannot_be_read_hurts_nobody_else(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await cluster.admin.create("/brokers/ids/5", b"garbage", mode=CreateMode.EPHEMERAL)
    await cluster.admin.create("/brokers/ids/x", b"", mode=CreateMode.EPHEMERAL)
    await cluster.start_broker(6)
    await cluster.settle()
    assert controller.is_active
    metadata = cluster.brokers[6].of_type(m.UpdateMetadataRequest)[-1]
    assert [b.id for b in metadata.live_brokers] == [0, 1, 2, 6]


async def test_a_failed_directory_moves_its_leaders(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (1, 2)})
    cluster.brokers[1].lost_partitions = {1}
    cluster.clear()
    await cluster.admin.create(
        LogDirEventNotificationZnode.path(),
        LogDirEventNotificationZnode.encode(1),
        mode=CreateMode.PERSISTENT_SEQUENTIAL,
    )
    await cluster.settle()
    assert (await cluster.state("t", 0)).leader == 1
    assert await cluster.state("t", 1) == LeaderAndIsr(2, 1, (2,), 1, 1)
    assert await cluster.admin.children(LogDirEventNotificationZnode.parent()) == []
    offline = cluster.brokers[0].of_type(m.UpdateMetadataRequest)[-1]
    states = {s.partition_index: s for t in offline.topic_states for s in t.partition_states}
    assert states[1].offline_replicas == [1]


async def test_an_isr_notification_of_an_older_leader_is_passed_on(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    cluster.clear()
    tp = TopicPartition("t", 0)
    shrunk = LeaderAndIsr(1, 0, (1,), 1)
    await cluster.admin.set(
        TopicPartitionStateZnode.path(tp), TopicPartitionStateZnode.encode(shrunk)
    )
    await cluster.admin.create(
        IsrChangeNotificationZnode.path(),
        IsrChangeNotificationZnode.encode([tp, TopicPartition("ghost", 3)]),
        mode=CreateMode.PERSISTENT_SEQUENTIAL,
    )
    await cluster.settle()
    (request,) = cluster.brokers[0].requests
    assert [s.isr for s in request.topic_states[0].partition_states] == [[1]]
    assert await cluster.admin.children(IsrChangeNotificationZnode.parent()) == []


async def test_preferred_election_by_the_admin_node_again_and_again(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (0, 2)})
    tp = TopicPartition("t", 0)
    for expected_epoch in (2, 4):
        await cluster.stop_broker(1)
        await cluster.settle()
        await cluster.start_broker(1)
        await cluster.settle()
        current = await cluster.state("t")
        assert current is not None and current.leader == 2
        both = current._replace(isr=(2, 1))
        await cluster.admin.set(
            TopicPartitionStateZnode.path(tp), TopicPartitionStateZnode.encode(both)
        )
        await cluster.admin.create(
            PreferredReplicaElectionZnode.path(),
            PreferredReplicaElectionZnode.encode([tp, TopicPartition("ghost", 0)]),
        )
        await cluster.settle()
        elected = await cluster.state("t")
        assert elected is not None
        assert (elected.leader, elected.leader_epoch) == (1, expected_epoch)
        assert not await cluster.exists(PreferredReplicaElectionZnode.path())


async def test_controlled_shutdown_moves_leaders_and_leaves_the_isr(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1), 1: (1, 2), 2: (2,)})
    cluster.clear()
    epoch = await cluster.broker_epoch(2)
    request = m.ControlledShutdownRequest(broker_id=2, broker_epoch=epoch)
    response = await controller.controlled_shutdown(request)
    await cluster.settle()
    assert response.error_code == 0
    remaining = [(p.topic_name, p.partition_index) for p in response.remaining_partitions]
    assert remaining == [("t", 2)]
    assert await cluster.state("t", 0) == LeaderAndIsr(1, 1, (1,), 1, 1)
    assert await cluster.state("t", 1) == LeaderAndIsr(1, 1, (1,), 1, 1)
    stops = cluster.brokers[2].of_type(m.StopReplicaRequest)
    assert [
        (s.partition_index, s.leader_epoch, s.delete_partition)
        for stop in stops
        for s in stop.topic_states[0].partition_states
    ] == [(1, 0, False), (1, 0, False)]
    # It still gets requests until it is really gone, and is no candidate meanwhile.
    await cluster.create_topic("u", {0: (2, 0)}, topic_id=b"u" * 16)
    assert (await cluster.state("u")).isr == (0,)


async def test_controlled_shutdown_is_refused_with_kafkas_codes(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    epoch = await cluster.broker_epoch(2)

    async def ask(broker_id: int, broker_epoch: int) -> int:
        request = m.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        return (await controller.controlled_shutdown(request)).error_code

    assert await ask(2, epoch - 1) == 77
    assert await ask(9, -1) == 8
    assert await ask(9, 5) == -1
    standby = await cluster.start_controller(1)
    request = m.ControlledShutdownRequest(broker_id=2, broker_epoch=epoch)
    assert (await standby.controlled_shutdown(request)).error_code == 11


async def test_leaders_go_back_to_their_first_replica_by_themselves(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.controller.controller.FIRST_REBALANCE_DELAY_S", 0.3)
    # Once more after the first: it may come before the old leader is in sync again.
    controller = await cluster.start_controller(0, leader_imbalance_check_interval_s=1)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(1)
    await cluster.settle()
    await cluster.start_broker(1)
    await cluster.settle()
    moved = await cluster.state("t")
    assert moved is not None and moved.leader == 2
    request = m.AlterPartitionRequest(
        broker_id=2,
        broker_epoch=await cluster.broker_epoch(2),
        topics=[
            m.AlterPartitionRequest.TopicData(
                topic_name="t",
                partitions=[
                    m.AlterPartitionRequest.PartitionData(
                        partition_index=0,
                        leader_epoch=moved.leader_epoch,
                        new_isr=[2, 1],
                        partition_epoch=moved.zk_version,
                    )
                ],
            )
        ],
    )
    response = await controller.alter_isr(request)
    assert response.topics[0].partitions[0].error_code == 0

    async def is_back() -> bool:
        state = await cluster.state("t")
        return state is not None and state.leader == 1 and state.isr == (2, 1)

    await eventually(is_back)


def test_membership() -> None:
    def at(epoch: int) -> Registered:
        return Registered(BrokerInfo(0, ()), epoch)

    changed = compare({1: 10, 2: 10, 3: 10}, {1: at(10), 2: at(11), 4: at(12)})
    assert (changed.new, changed.bounced, changed.dead) == ([4], [2], [3])


def test_features() -> None:
    finalized = {"f": {"min_version_level": 1, "max_version_level": 2}}
    assert supports({}, {})
    assert supports(finalized, {"f": {"min_version": 1, "max_version": 3}})
    assert not supports(finalized, {"f": {"min_version": 1, "max_version": 1}})
    assert not supports(finalized, {})
