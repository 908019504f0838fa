"""The indexes of the controller's memory."""

from __future__ import annotations

from ottla.controller import replica_machine
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.metadata.znodes import ReplicaAssignment
from ottla.types import TopicPartition
from tests.support.controller.contexts import empty_context

P, R = PartitionState, ReplicaState


def test_replica_states_are_counted_per_topic() -> None:
    ctx = empty_context()
    tp = TopicPartition("t", 0)
    ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
    one, two = ctx.replicas_of([tp])
    assert ctx.all_replicas_in_state("t", R.DELETION_SUCCESSFUL)
    ctx.put_replica_state(one, R.ONLINE)
    ctx.put_replica_state(two, R.DELETION_SUCCESSFUL)
    assert not ctx.all_replicas_in_state("t", R.DELETION_SUCCESSFUL)
    assert ctx.replicas_in_state("t", R.ONLINE) == [one]
    ctx.put_replica_state(one, R.DELETION_SUCCESSFUL)
    assert ctx.all_replicas_in_state("t", R.DELETION_SUCCESSFUL)
    ctx.put_replica_state(one, R.NON_EXISTENT)
    ctx.put_replica_state(two, R.NON_EXISTENT)
    assert not ctx.any_replica_in_state("t", R.DELETION_SUCCESSFUL)
    ctx.remove_topic("t")
    assert ctx.partitions_on(1) == [] and ctx.all_partitions() == []


def test_deleted_replicas_are_not_hosted() -> None:
    ctx = empty_context()
    states = (R.NEW, R.DELETION_STARTED, R.ONLINE, R.DELETION_SUCCESSFUL, R.DELETION_INELIGIBLE)
    for partition, state in enumerate(states):
        tp = TopicPartition("t", partition)
        ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
        ctx.put_replica_state(ctx.replicas_of([tp])[0], state)
    assert [replica.partition for replica in replica_machine.hosted_on(ctx, [1])] == [0, 2, 4]
    assert len(ctx.replicas_on([1])) == 5


def test_what_is_found_at_once_is_as_if_it_was_put() -> None:
    """A new controller, also where something was known of a topic before."""
    at_once, one_by_one = empty_context(), empty_context()
    partitions = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]
    found = dict.fromkeys(partitions, P.ONLINE) | {partitions[0]: P.NEW, partitions[4]: P.OFFLINE}
    for ctx in (at_once, one_by_one):
        for tp in partitions:
            ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
        ctx.put_partition_state(partitions[0], P.OFFLINE)
        ctx.put_replica_state(ctx.replicas_of(partitions)[0], R.OFFLINE)
    at_once.found_partitions(found)
    for tp, state in found.items():
        one_by_one.put_partition_state(tp, state)
    replicas = at_once.replicas_of(partitions)
    states = {each: R.ONLINE if each.broker_id == 1 else R.OFFLINE for each in replicas}
    at_once.found_replicas(
        {topic: {r: state for r, state in states.items() if r.topic == topic} for topic in "ab"}
    )
    for replica, replica_state in states.items():
        one_by_one.put_replica_state(replica, replica_state)
    for each_state in R:
        listed = at_once.replicas_in_state("b", each_state)
        assert listed == one_by_one.replicas_in_state("b", each_state)
        assert bool(listed) == (each_state in (R.ONLINE, R.OFFLINE))
    assert sorted(at_once.partitions_without_leader()) == sorted(
        one_by_one.partitions_without_leader()
    )
    assert +at_once.census.partitions == +one_by_one.census.partitions
    assert +at_once.census.replicas == +one_by_one.census.replicas
    assert not at_once.census.partition_steps and not at_once.census.replica_steps
