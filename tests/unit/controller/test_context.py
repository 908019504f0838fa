"""The indexes of the controller's memory."""

from __future__ import annotations

from ottla.controller.replica_states import ReplicaState
from ottla.metadata.znodes import ReplicaAssignment
from ottla.types import TopicPartition
from tests.support.controller.contexts import empty_context

R = ReplicaState


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
    assert [replica.partition for replica in ctx.hosted_replicas_on([1])] == [0, 2, 4]
    assert len(ctx.replicas_on([1])) == 5
