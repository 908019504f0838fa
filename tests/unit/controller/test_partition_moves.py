"""Partition reassignment (KIP-455) against brokers that only record what they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.controller.controller import Controller
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import ReassignPartitionsZnode, ReplicaAssignment
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

T0 = TopicPartition("t", 0)
ADMIN_NODE = "/admin/reassign_partitions"


async def alter_isr(cluster: ControlledCluster, isr: list[int], partition: int = 0) -> None:
    """What the leader of t does when followers have caught up."""
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
    active = next(c for c in cluster.controllers if c.is_active)
    response = await active.alter_isr(request)
    assert response.topics[0].partitions[0].error_code == 0
    await cluster.settle()


async def move(controller: Controller, target: tuple[int, ...] | None, tp: Any = T0) -> Any:
    outcomes = await controller.alter_partition_reassignments({tp: target})
    assert outcomes is not None
    return outcomes[tp]


def told(cluster: ControlledCluster, broker_id: int) -> list[tuple[Any, ...]]:
    """(leader epoch, replicas, adding, removing, isNew) of every LeaderAndIsr for t-0."""
    return [
        (s.leader_epoch, s.replicas, s.adding_replicas, s.removing_replicas, s.is_new)
        for request in cluster.brokers[broker_id].of_type(m.LeaderAndIsrRequest)
        for topic in request.topic_states
        for s in topic.partition_states
    ]


def stops(cluster: ControlledCluster, broker_id: int) -> list[tuple[int, bool]]:
    return [
        (s.leader_epoch, s.delete_partition)
        for request in cluster.brokers[broker_id].of_type(m.StopReplicaRequest)
        for topic in request.topic_states
        for s in topic.partition_states
    ]


async def stored(cluster: ControlledCluster) -> tuple[Any, Any, Any]:
    node = await cluster.json("/brokers/topics/t")
    return node["partitions"], node["adding_replicas"], node["removing_replicas"]


@pytest.mark.parametrize(
    ("before", "target", "expected"),
    [
        (((1, 2, 3),), (4, 5, 6), ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        (((1, 2, 3),), (3, 4, 2), ((3, 4, 2, 1), (4,), (1,))),
        (((3, 4, 2, 1), (4,), (1,)), (3, 2, 1), ((3, 2, 1), (), ())),
        (((3, 4, 2, 1), (4,), (1,)), (1, 5), ((1, 5, 3, 2), (5,), (3, 2))),
        (((1, 2),), (2, 1), ((2, 1), (), ())),
        (((1, 2),), (1,), ((1, 2), (), (2,))),
        (((1,),), (2, 2), ((2, 1), (2,), (1,))),
    ],
)
def test_replicas_while_a_partition_moves(before: Any, target: Any, expected: Any) -> None:
    move = ReplicaAssignment(*before).reassign_to(target)
    assert move == ReplicaAssignment(*expected)
    assert move.target == tuple(dict.fromkeys(target))


async def test_the_whole_way(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    cluster.clear()
    assert await move(controller, (2, 1)) is None
    await cluster.settle()
    partitions = {"0": [2, 1, 0], "1": [1, 0]}
    assert await stored(cluster) == (partitions, {"0": [2]}, {"0": [0]})
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch, state.isr) == (0, 1, (0, 1))
    moving = (1, [2, 1, 0], [2], [0])
    assert told(cluster, 0) == [(*moving, False)]
    assert told(cluster, 1) == [(*moving, False)]
    # Once with the others, once as a new replica; the broker ignores the equal epoch.
    assert told(cluster, 2) == [(*moving, True), (*moving, True)]
    assert await controller.list_partition_reassignments(None) == {
        T0: ReplicaAssignment((2, 1, 0), (2,), (0,))
    }
    cluster.clear()
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
    await cluster.settle()
    assert await stored(cluster) == ({"0": [2, 1], "1": [1, 0]}, {}, {})
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch, state.isr) == (2, 3, (1, 2))
    assert told(cluster, 2)[-1] == (3, [2, 1], [], [], False)
    # Out of the ISR first, then away; both epochs are above the one that broker 0 knows (1).
    assert stops(cluster, 0) == [(2, False), (3, True)]
    assert stops(cluster, 2) == []
    assert await controller.list_partition_reassignments([T0]) == {}


async def test_of_two_moves_the_one_that_is_ready_ends(cluster: ControlledCluster) -> None:
    """The other one goes on as it was: nobody is stopped, told or written down for it."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    second = TopicPartition("t", 1)
    outcomes = await controller.alter_partition_reassignments({T0: (2, 1), second: (2, 0)})
    assert outcomes == {T0: None, second: None}
    await cluster.settle()
    waiting = await cluster.state("t", 1)
    cluster.clear()
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
    await cluster.settle()
    assert await stored(cluster) == ({"0": [2, 1], "1": [2, 0, 1]}, {"1": [2]}, {"1": [1]})
    assert await cluster.state("t", 1) == waiting
    assert await controller.list_partition_reassignments(None) == {
        second: ReplicaAssignment((2, 0, 1), (2,), (1,))
    }
    of_second = [
        (broker.broker_id, type(request).__name__)
        for broker in cluster.brokers.values()
        for kind in (m.LeaderAndIsrRequest, m.StopReplicaRequest)
        for request in broker.of_type(kind)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.partition_index == 1
    ]
    assert of_second == []
    # A partial ISR is no end either; the whole one is.
    await alter_isr(cluster, [1, 2], partition=1)
    assert (await stored(cluster))[1] == {"1": [2]}
    await alter_isr(cluster, [1, 2, 0], partition=1)
    await eventually(lambda: cluster.brokers[1].of_type(m.StopReplicaRequest))
    await cluster.settle()
    assert await stored(cluster) == ({"0": [2, 1], "1": [2, 0]}, {}, {})
    assert await controller.list_partition_reassignments(None) == {}


async def test_of_two_moves_in_the_admin_node_one_ends(cluster: ControlledCluster) -> None:
    """The node keeps the one that goes on: an old tool takes it for the list of open moves."""
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    wish = {T0: (2, 1), TopicPartition("t", 1): (2, 0)}
    await cluster.admin.create(ADMIN_NODE, ReassignPartitionsZnode.encode(wish))
    await cluster.settle()
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
    await cluster.settle()
    left = {"topic": "t", "partition": 1, "replicas": [2, 0]}
    assert await cluster.json(ADMIN_NODE) == {"version": 1, "partitions": [left]}


async def test_the_leader_stays_where_it_may(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    assert await move(controller, (0, 2)) is None
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: cluster.brokers[1].of_type(m.StopReplicaRequest))
    await cluster.settle()
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (0, (0, 2))
    assert await stored(cluster) == ({"0": [0, 2]}, {}, {})


async def test_another_order_is_done_at_once(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    cluster.clear()
    assert await move(controller, (1, 0)) is None
    await cluster.settle()
    assert await stored(cluster) == ({"0": [1, 0]}, {}, {})
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch) == (0, 1)
    assert stops(cluster, 0) == stops(cluster, 1) == []


async def test_a_move_is_taken_back(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    wrong = await move(controller, None)
    assert wrong.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    await move(controller, (2, 1))
    await cluster.settle()
    cluster.clear()
    assert await move(controller, None) is None
    await cluster.settle()
    assert await stored(cluster) == ({"0": [1, 0]}, {}, {})
    # Broker 2 knows epoch 1 already: only a higher one makes it delete its log.
    assert stops(cluster, 2)[-1] == (2, True)
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch, state.isr) == (0, 2, (0, 1))


async def test_the_newest_wish_counts(cluster: ControlledCluster) -> None:
    await cluster.start_broker(3)
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await move(controller, (2, 1))
    await cluster.settle()
    cluster.clear()
    assert await move(controller, (3, 1)) is None
    await cluster.settle()
    assert await stored(cluster) == ({"0": [3, 1, 0]}, {"0": [3]}, {"0": [0]})
    assert stops(cluster, 2)[-1] == (2, True)
    await alter_isr(cluster, [0, 1, 3])
    await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
    await cluster.settle()
    assert await stored(cluster) == ({"0": [3, 1]}, {}, {})


async def led_by_a_new_replica(cluster: ControlledCluster) -> Controller:
    """t-0 moves from (0, 1) to (2, 3); 2 is there and leads, 3 is not in sync."""
    await cluster.start_broker(3)
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await move(controller, (2, 3))
    await cluster.settle()
    await alter_isr(cluster, [0, 1, 2])
    assert await controller.elect_leaders([T0], unclean=False) == {T0: 2}
    await cluster.settle()
    return controller


@pytest.mark.parametrize("target", [(3, 1), None], ids=["another move", "taken back"])
async def test_a_leader_without_a_place_hands_over_first(
    cluster: ControlledCluster, target: Any
) -> None:
    controller = await led_by_a_new_replica(cluster)
    cluster.clear()
    assert await move(controller, target) is None
    await cluster.settle()
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (0 if target is None else 1, (0, 1))
    assert stops(cluster, 2)[-1][1], "broker 2 is told to delete its log"
    leaders = {
        s.leader
        for request in cluster.brokers[1].of_type(m.LeaderAndIsrRequest)
        for topic in request.topic_states
        for s in topic.partition_states
    }
    assert -1 not in leaders, "nobody is told that nobody leads"
    if target is not None:
        await alter_isr(cluster, [0, 1, 3])
        await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
        await cluster.settle()
        assert await stored(cluster) == ({"0": [3, 1]}, {}, {})


@pytest.mark.parametrize("target", [(3, 1), None], ids=["another move", "taken back"])
async def test_the_only_replica_with_all_records_is_kept(
    cluster: ControlledCluster, target: Any
) -> None:
    controller = await led_by_a_new_replica(cluster)
    await alter_isr(cluster, [2])
    before = await stored(cluster)
    wrong = await move(controller, target)
    assert wrong.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert str(wrong).endswith("because it would require an unclean leader election.")
    assert await stored(cluster) == before
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (2, (2,))


async def test_the_next_controller_takes_the_office_from_a_leader_without_a_place(
    cluster: ControlledCluster,
) -> None:
    """The one before died between the new assignment and the election."""
    await led_by_a_new_replica(cluster)
    node = await cluster.json("/brokers/topics/t")
    node |= {"partitions": {"0": [3, 1, 0]}, "adding_replicas": {"0": [3]}}
    node |= {"removing_replicas": {"0": [0]}}
    await cluster.admin.set("/brokers/topics/t", json.dumps(node).encode())
    await cluster.admin.delete("/controller")
    await cluster.start_controller(1)
    await cluster.settle()
    state = await cluster.state("t")
    assert state is not None and state.leader == 1


@pytest.mark.parametrize(
    ("target", "code", "text"),
    [
        ((), 39, "Empty replica list specified in partition reassignment."),
        ((1, 1), 39, "Duplicate replica ids in partition reassignment replica list: "),
        ((1, -5), 39, "Invalid broker id in replica list: "),
        ((1, 9), 39, "Replica assignment has brokers that are not alive. Replica list: "),
    ],
)
async def test_refusals(cluster: ControlledCluster, target: Any, code: int, text: str) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    wrong = await move(controller, target)
    assert isinstance(wrong, KafkaError)
    assert wrong.code == code
    assert str(wrong).startswith(text)
    assert await stored(cluster) == ({"0": [0, 1]}, {}, {})


async def test_unknown_and_deleted_partitions_do_not_move(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    for tp in (TopicPartition("t", 5), TopicPartition("ghost", 0)):
        wrong = await move(controller, (0,), tp)
        assert (wrong.code, str(wrong)) == (3, "The partition does not exist.")
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.delete_topic("t")
    assert (await move(controller, (0,))).code == 3


async def test_a_dead_replica_may_stay_but_not_be_added(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await cluster.stop_broker(1)
    await cluster.settle()
    assert await move(controller, (1, 0)) is None
    assert await stored(cluster) == ({"0": [1, 0]}, {}, {})


async def test_the_admin_node_of_old_tools(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    wish = {T0: (2, 1), TopicPartition("t", 1): (0, 1), TopicPartition("ghost", 0): (1,)}
    await cluster.admin.create(ADMIN_NODE, ReassignPartitionsZnode.encode(wish))
    await cluster.settle()
    # The ghost is refused and partition 1 was done at once; partition 0 waits for broker 2.
    node = await cluster.json(ADMIN_NODE)
    assert node == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1]}],
    }
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: gone(cluster))
    assert await stored(cluster) == ({"0": [2, 1], "1": [0, 1]}, {}, {})
    # The next one is seen as well.
    await cluster.admin.create(ADMIN_NODE, ReassignPartitionsZnode.encode({T0: (1, 2)}))
    await eventually(lambda: gone(cluster))
    await cluster.settle()
    assert (await stored(cluster))[0]["0"] == [1, 2]


async def gone(cluster: ControlledCluster) -> bool:
    return not await cluster.exists(ADMIN_NODE)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"version":1,"partitions":[]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
    ],
)
async def test_an_admin_node_without_sense_goes(cluster: ControlledCluster, data: bytes) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await cluster.admin.create(ADMIN_NODE, data)
    await eventually(lambda: gone(cluster))
    assert await stored(cluster) == ({"0": [0, 1]}, {}, {})
    await cluster.settle()
    await cluster.admin.create(ADMIN_NODE, ReassignPartitionsZnode.encode({T0: (1, 0)}))
    await eventually(lambda: gone(cluster))
    assert (await stored(cluster))[0]["0"] == [1, 0]


async def test_an_api_call_replaces_what_the_admin_node_asked(cluster: ControlledCluster) -> None:
    await cluster.start_broker(3)
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await cluster.admin.create(ADMIN_NODE, ReassignPartitionsZnode.encode({T0: (2, 1)}))
    await eventually(lambda: cluster.brokers[2].of_type(m.LeaderAndIsrRequest))
    assert await move(controller, (3, 1)) is None
    assert await gone(cluster)
    assert (await stored(cluster))[1] == {"0": [3]}


async def test_the_next_controller_finishes(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    await move(first, (2, 1))
    await cluster.settle()
    await cluster.kill_controller(first)
    # The last follower caught up while nobody was in office (an older leader wrote the ISR).
    state = await cluster.state("t")
    assert state is not None
    path = "/brokers/topics/t/partitions/0/state"
    await cluster.admin.set(
        path, b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":1,"isr":[0,1,2]}'
    )
    await cluster.start_controller(1)
    await cluster.settle()
    assert await stored(cluster) == ({"0": [2, 1], "1": [1, 0]}, {}, {})
    assert stops(cluster, 0)[-1][1] is True


async def test_the_next_controller_starts_replicas_again(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await move(first, (2, 1))
    await cluster.settle()
    await cluster.kill_controller(first)
    cluster.clear()
    second = await cluster.start_controller(1)
    await cluster.settle()
    assert told(cluster, 2)[-1][1:4] == ([2, 1, 0], [2], [0])
    assert await second.list_partition_reassignments(None) is not None
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: cluster.brokers[0].of_type(m.StopReplicaRequest))
    await cluster.settle()
    assert await stored(cluster) == ({"0": [2, 1]}, {}, {})


async def test_a_target_that_comes_back_takes_up_the_move(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await move(controller, (2, 1))
    await cluster.settle()
    await cluster.stop_broker(2)
    await cluster.settle()
    cluster.clear()
    await cluster.start_broker(2)
    await eventually(lambda: told(cluster, 2))
    await cluster.settle()
    assert told(cluster, 2)[-1][1:] == ([2, 1, 0], [2], [0], True)


async def test_a_deletion_waits_for_the_end_of_a_move(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1)})
    await move(controller, (2, 1))
    await cluster.delete_topic("t")
    assert await cluster.exists("/brokers/topics/t")
    await alter_isr(cluster, [0, 1, 2])

    async def deleted() -> bool:
        return not await cluster.exists("/brokers/topics/t")

    await eventually(deleted)


async def test_a_deletion_waits_for_the_end_of_all_moves(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (0, 1), 1: (1, 0)})
    await move(controller, (2, 1))
    await move(controller, (2, 0), TopicPartition("t", 1))
    await cluster.delete_topic("t")
    await alter_isr(cluster, [0, 1, 2])
    await eventually(lambda: any(deleting for _, deleting in stops(cluster, 0)))
    await cluster.settle()
    assert await cluster.exists("/brokers/topics/t"), "partition 1 still moves"
    await alter_isr(cluster, [0, 1, 2], partition=1)

    async def deleted() -> bool:
        return not await cluster.exists("/brokers/topics/t")

    await eventually(deleted)


async def test_a_standby_answers_nothing(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    standby = await cluster.start_controller(1)
    assert await standby.alter_partition_reassignments({T0: None}) is None
    assert await standby.list_partition_reassignments(None) is None
    assert await standby.elect_leaders([T0], unclean=False) is None
