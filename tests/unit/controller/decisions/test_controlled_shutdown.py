"""A broker leaves while replicas of its partitions are out of sync."""

from __future__ import annotations

from typing import Any

from ottla.controller.controller import Controller
from ottla.metadata.znodes import LeaderAndIsr
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster


async def shrink_isr(cluster: ControlledCluster, isr: list[int], partition: int = 0) -> None:
    """What the leader of t does when a follower has fallen behind."""
    state = await cluster.state("t", partition)
    assert state is not None
    wish = m.AlterPartitionRequest.PartitionData(
        partition_index=partition,
        leader_epoch=state.leader_epoch,
        new_isr=isr,
        partition_epoch=state.zk_version,
    )
    request = m.AlterPartitionRequest(
        broker_id=state.leader,
        broker_epoch=await cluster.broker_epoch(state.leader),
        topics=[m.AlterPartitionRequest.TopicData(topic_name="t", partitions=[wish])],
    )
    response = await cluster.controllers[0].alter_isr(request)
    assert response.topics[0].partitions[0].error_code == 0
    await cluster.settle()


async def shut_down(
    cluster: ControlledCluster, controller: Controller, broker_id: int
) -> list[tuple[str, int]]:
    """The partitions that the broker still leads by the controller's answer."""
    request = m.ControlledShutdownRequest(
        broker_id=broker_id, broker_epoch=await cluster.broker_epoch(broker_id)
    )
    response = await controller.controlled_shutdown(request)
    await cluster.settle()
    assert response.error_code == 0
    return [(p.topic_name, p.partition_index) for p in response.remaining_partitions]


def told(cluster: ControlledCluster, broker_id: int, kind: Any) -> list[Any]:
    """The partition states of all requests of a kind."""
    return [
        state
        for request in cluster.brokers[broker_id].of_type(kind)
        for topic in request.topic_states
        for state in topic.partition_states
    ]


async def test_a_replica_out_of_sync_does_not_take_over(cluster: ControlledCluster) -> None:
    """It is alive, but records would be lost: the broker that leaves still leads."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1)})
    await shrink_isr(cluster, [2])
    before = await cluster.state("t")
    cluster.clear()
    assert await shut_down(cluster, controller, 2) == [("t", 0)]
    assert await cluster.state("t") == before
    assert told(cluster, 2, m.StopReplicaRequest) == []
    assert told(cluster, 1, m.LeaderAndIsrRequest) == []


async def test_the_next_in_sync_takes_over_and_the_others_stay_out(
    cluster: ControlledCluster,
) -> None:
    """Broker 1 comes first in the assignment; broker 0 has the records."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1, 0)})
    await shrink_isr(cluster, [2, 0])
    cluster.clear()
    assert await shut_down(cluster, controller, 2) == []
    assert await cluster.state("t") == LeaderAndIsr(0, 1, (0,), 1, 2)
    for broker_id in (0, 1, 2):
        (state,) = told(cluster, broker_id, m.LeaderAndIsrRequest)
        assert (state.leader, state.leader_epoch, state.isr) == (0, 1, [0])


async def test_a_follower_out_of_sync_leaves_without_a_new_epoch(
    cluster: ControlledCluster,
) -> None:
    """There is nothing to write: the ISR is without it already (removeReplicasFromIsr). Beside it,
    a follower in sync leaves the ISR, with a new epoch."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (1, 2)})
    await shrink_isr(cluster, [1])
    cluster.clear()
    assert await shut_down(cluster, controller, 2) == []
    assert await cluster.state("t", 0) == LeaderAndIsr(1, 0, (1,), 1, 1)
    assert await cluster.state("t", 1) == LeaderAndIsr(1, 1, (1,), 1, 1)
    stopped = {state.partition_index for state in told(cluster, 2, m.StopReplicaRequest)}
    assert stopped == {0, 1}, "both replicas are told to stop fetching"
    assert not any(s.delete_partition for s in told(cluster, 2, m.StopReplicaRequest))
    assert sorted(
        (s.partition_index, s.leader, s.leader_epoch, s.isr)
        for s in told(cluster, 1, m.LeaderAndIsrRequest)
    ) == [(0, 1, 0, [1]), (1, 1, 1, [1])]


async def test_two_brokers_leave_and_the_third_is_out_of_sync(cluster: ControlledCluster) -> None:
    """The second to leave finds nobody: neither the first, which is alive still, nor broker 0."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (2, 1, 0)})
    await shrink_isr(cluster, [2, 1])
    assert await shut_down(cluster, controller, 2) == []
    assert await cluster.state("t") == LeaderAndIsr(1, 1, (1,), 1, 2)
    assert await shut_down(cluster, controller, 1) == [("t", 0)]
    assert await cluster.state("t") == LeaderAndIsr(1, 1, (1,), 1, 2)
