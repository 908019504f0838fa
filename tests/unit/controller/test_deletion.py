"""Deletion: the whole way, blocked and resumed, refused, raced by an expansion, of ghosts."""

from __future__ import annotations

from ottla.controller.events import StopReplicaResponseReceived
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually


async def is_gone(cluster: ControlledCluster, topic: str) -> bool:
    paths = (
        f"/brokers/topics/{topic}",
        f"/config/topics/{topic}",
        f"/admin/delete_topics/{topic}",
    )
    return not any([await cluster.exists(path) for path in paths])


async def test_deletion_tells_stops_and_removes(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2), 1: (2, 1)})
    cluster.clear()
    cluster.brokers[1].answers.clear()
    await cluster.delete_topic("t")
    assert controller.is_queued_for_deletion("t")
    assert await cluster.exists("/brokers/topics/t")
    cluster.brokers[1].answers.set()
    await eventually(lambda: is_gone(cluster, "t"))
    await cluster.settle()
    assert not controller.is_queued_for_deletion("t")
    first = cluster.brokers[0].of_type(m.UpdateMetadataRequest)[0]
    (topic,) = first.topic_states
    assert [(s.leader, s.leader_epoch) for s in topic.partition_states] == [(-2, 0), (-2, 0)]
    stops = [
        (s.leader_epoch, s.delete_partition)
        for request in cluster.brokers[1].of_type(m.StopReplicaRequest)
        for s in request.topic_states[0].partition_states
    ]
    assert stops == [(-2, False), (-2, False), (-2, True), (-2, True)]
    assert cluster.brokers[0].of_type(m.LeaderAndIsrRequest) == []
    # The name is free again, with another id.
    await cluster.create_topic("t", {0: (2,)}, topic_id=b"n" * 16)
    state = await cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch) == (2, 0)


async def test_deletion_waits_for_a_dead_broker_and_resumes(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.delete_topic("t")
    assert controller.is_queued_for_deletion("t")
    assert await cluster.exists("/admin/delete_topics/t")
    await cluster.start_broker(2)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_a_broker_that_dies_while_it_deletes_parks_the_topic(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    cluster.brokers[2].answers.clear()
    await cluster.delete_topic("t")
    await cluster.stop_broker(2)
    await cluster.settle()
    assert await cluster.exists("/brokers/topics/t")
    cluster.brokers[2].answers.set()
    await cluster.start_broker(2)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_a_refused_stop_parks_the_topic_until_a_new_controller(
    cluster: ControlledCluster,
) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    cluster.brokers[2].stop_error = 56
    await cluster.delete_topic("t")
    assert await cluster.exists("/brokers/topics/t")
    cluster.brokers[2].stop_error = 0
    await cluster.kill_controller(first)
    await cluster.start_controller(1)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_partitions_added_during_deletion_are_taken_away_again(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.delete_topic("t")
    await cluster.set_topic("t", {0: (1, 2), 1: (0, 1)})
    stored = await cluster.json("/brokers/topics/t")
    assert stored["partitions"] == {"0": [1, 2]}
    assert await cluster.state("t", 1) is None
    await cluster.start_broker(2)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_a_ghost_in_delete_topics_is_removed(cluster: ControlledCluster) -> None:
    controller = await cluster.start_controller(0)
    await cluster.delete_topic("ghost")
    assert not await cluster.exists("/admin/delete_topics/ghost")
    assert not controller.is_queued_for_deletion("ghost")


async def test_nothing_is_deleted_where_deletion_is_disabled(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0, delete_topic_enable=False)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.delete_topic("t")
    assert not await cluster.exists("/admin/delete_topics/t")
    assert await cluster.exists("/brokers/topics/t")
    await cluster.kill_controller(first)
    await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(1, delete_topic_enable=False)
    assert not await cluster.exists("/admin/delete_topics/t")
    assert await cluster.exists("/brokers/topics/t")


async def test_znodes_added_by_hand_do_not_stop_a_deletion(cluster: ControlledCluster) -> None:
    await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    await cluster.create_path("/brokers/topics/t/partitions/77/state")
    await cluster.create_path("/brokers/topics/t/notes/mine")
    await cluster.delete_topic("t")
    await eventually(lambda: is_gone(cluster, "t"))


async def test_a_topic_that_is_being_reassigned_is_not_deleted_yet(
    cluster: ControlledCluster,
) -> None:
    await cluster.start_controller(0)
    await cluster.admin.create(
        "/brokers/topics/t",
        b'{"version":3,"partitions":{"0":[0,1]},"adding_replicas":{"0":[1]},'
        b'"removing_replicas":{}}',
    )
    await cluster.settle()
    await cluster.delete_topic("t")
    assert await cluster.exists("/brokers/topics/t")
    assert await cluster.exists("/admin/delete_topics/t")


MOVING = (
    b'{"version":3,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}'
)


async def test_a_move_that_lost_its_leader_does_not_hold_up_the_deletion(
    cluster: ControlledCluster,
) -> None:
    """ADR 23: the topic gets no leader any more, so the move would never end."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1,)})
    await controller.alter_partition_reassignments({TopicPartition("t", 0): (1, 2)})
    await cluster.delete_topic("t")
    assert await cluster.exists("/brokers/topics/t")
    await cluster.stop_broker(1)
    await cluster.settle()
    assert (await cluster.json("/brokers/topics/t"))["adding_replicas"] == {}
    assert (await cluster.json("/brokers/topics/t"))["partitions"] == {"0": [1, 2]}
    await cluster.start_broker(1)
    await eventually(lambda: is_gone(cluster, "t"))
    stopped = [
        request
        for request in cluster.brokers[2].of_type(m.StopReplicaRequest)
        if any(p.delete_partition for t in request.topic_states for p in t.partition_states)
    ]
    assert stopped


async def test_a_new_controller_ends_such_moves_too(cluster: ControlledCluster) -> None:
    first = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1,)})
    await cluster.kill_controller(first)
    state = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":4,"isr":[1]}'
    await cluster.admin.set("/brokers/topics/t/partitions/0/state", state)
    await cluster.admin.set("/brokers/topics/t", MOVING)
    await cluster.admin.create("/admin/delete_topics/t")
    await cluster.start_controller(0)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_a_waiting_topic_whose_znode_is_removed_by_hand_leaves_nothing(
    cluster: ControlledCluster,
) -> None:
    controller = await cluster.start_controller(0)
    await cluster.admin.create("/brokers/topics/t", b'{"partitions":{"0":[9]}}')
    await cluster.settle()
    await cluster.delete_topic("t")
    assert await cluster.exists("/admin/delete_topics/t")
    await cluster.admin.delete("/brokers/topics/t")
    await cluster.settle()
    assert not await cluster.exists("/admin/delete_topics/t")
    assert not controller.is_queued_for_deletion("t")


async def test_a_stop_refused_as_a_whole_parks_the_topic(cluster: ControlledCluster) -> None:
    """A top-level error names no partition: all that were to be deleted have failed."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1, 2)})
    broker = cluster.brokers[2]
    answer = broker.answer

    async def refuse(request: object) -> object:
        if isinstance(request, m.StopReplicaRequest):
            return m.StopReplicaResponse(error_code=77)
        return await answer(request)

    broker.answer = refuse  # type: ignore[method-assign]
    await cluster.delete_topic("t")
    assert controller.is_queued_for_deletion("t")
    broker.answer = answer  # type: ignore[method-assign]
    await cluster.stop_broker(2)
    await cluster.settle()
    await cluster.start_broker(2)
    await eventually(lambda: is_gone(cluster, "t"))


async def test_an_answer_from_an_earlier_life_of_a_broker_does_not_count(
    cluster: ControlledCluster,
) -> None:
    """The refusal of a request for the life before would halt the deletion for ever."""
    controller = await cluster.start_controller(0)
    await cluster.create_topic("t", {0: (1,)})
    cluster.brokers[1].answers.clear()
    await cluster.delete_topic("t")
    await eventually(lambda: controller.is_queued_for_deletion("t"))
    request = m.StopReplicaRequest
    stop = request(
        broker_epoch=await cluster.broker_epoch(1) - 1,
        topic_states=[
            request.StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    request.StopReplicaPartitionState(partition_index=0, delete_partition=True)
                ],
            )
        ],
    )
    refusal = m.StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    controller._queue.put(StopReplicaResponseReceived(1, stop, refusal))
    await cluster.settle()
    cluster.brokers[1].answers.set()
    await eventually(lambda: is_gone(cluster, "t"))
