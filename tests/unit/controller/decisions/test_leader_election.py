"""ElectLeaders as the controller sees it: who gets elected, and every refusal."""

from __future__ import annotations

from typing import Any

from ottla.controller.controller import Controller
from ottla.controller.decisions.leader_election import imbalanced_partitions
from ottla.errors import KafkaError
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.types import TopicPartition
from tests.support.controller.contexts import empty_context
from tests.support.controller.controlled_cluster import ControlledCluster


async def elect(controller: Controller, *partitions: int, unclean: bool = False) -> dict[int, Any]:
    """Leader or error code by partition of t."""
    asked = [TopicPartition("t", partition) for partition in partitions]
    elections = await controller.elect_leaders(asked, unclean=unclean)
    assert elections is not None
    return {
        tp.partition: int(outcome.code) if isinstance(outcome, KafkaError) else f"leader {outcome}"
        for tp, outcome in elections.items()
    }


async def test_preferred_leaders(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 1), 2: (1, 2)})
    await cluster.stop_broker(1)
    await cluster.settle()
    assert await elect(controller, 0, 1) == {0: 80, 1: 84}
    await cluster.start_broker(1)
    await cluster.settle()
    # It is alive again but not in the ISR.
    assert await elect(controller, 0) == {0: 80}
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (2, (2,))
    await cluster.admin.set(
        "/brokers/topics/t/partitions/0/state",
        b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2,1]}',
    )
    assert await elect(controller, 0, 7) == {0: "leader 1", 7: 3}
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch, state.isr) == (1, 2, (2, 1))


async def test_messages_are_kafkas(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(1)
    await cluster.settle()
    t0, t9 = TopicPartition("t", 0), TopicPartition("t", 9)
    elections = await controller.elect_leaders([t0, t9], unclean=False)
    assert elections is not None
    assert str(elections[t0]) == (
        "Failed to elect leader for partition t-0 under strategy"
        " PreferredReplicaPartitionLeaderElectionStrategy"
    )
    assert str(elections[t9]) == "The partition does not exist."


async def test_unclean_elections_only_for_the_leaderless(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 1)})
    assert await elect(controller, 0, 1, unclean=True) == {0: 84, 1: 84}
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.stop_broker(1)
    await cluster.settle()
    # Broker 1 was the last in both ISRs.
    assert await elect(controller, 0, 1, unclean=True) == {0: 83, 1: 83}
    await cluster.start_broker(2)
    await cluster.settle()
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (-1, (1,))
    assert await elect(controller, 0, unclean=True) == {0: "leader 2"}
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (2, (2,))


async def test_topics_that_are_being_deleted(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.delete_topic("t")
    assert await elect(controller, 0) == {0: 17}


def test_imbalance_counts_per_preferred_broker() -> None:
    ctx = empty_context(leader_imbalance_per_broker_percentage=10)
    for broker in (1, 2):
        ctx.add_broker(BrokerInfo(broker, ()), 5)
    for partition in range(10):
        tp = TopicPartition("t", partition)
        ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
        ctx.leadership[tp] = LeaderAndIsr(2 if partition == 0 else 1, 0, (1, 2), 1)
    # One of ten is exactly the limit: nothing is done.
    assert imbalanced_partitions(ctx) == []
    second = TopicPartition("t", 1)
    ctx.leadership[second] = LeaderAndIsr(2, 0, (2,), 1)
    # Two are too many; the one whose first replica is not in sync stays.
    assert imbalanced_partitions(ctx) == [TopicPartition("t", 0)]
    ctx.topics_to_delete.add("t")
    assert imbalanced_partitions(ctx) == []
    ctx.topics_to_delete.clear()
    ctx.set_assignment(TopicPartition("u", 0), ReplicaAssignment((1, 2), adding=(2,)))
    assert imbalanced_partitions(ctx) == []
