"""Counts of states, kept while they change."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import partition_machine, replica_machine
from ottla.controller.census import legal_partition_steps, legal_replica_steps
from ottla.controller.partition_states import VALID_PREVIOUS, PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.metadata.znodes import ReplicaAssignment
from ottla.types import TopicPartition
from tests.support.controller.contexts import empty_context

P, R = PartitionState, ReplicaState
PARTITIONS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(2)]
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(P)),
    st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(R)),
    st.tuples(st.sampled_from(PARTITIONS), st.just("forget")),
)


@given(st.lists(ACTIONS, max_size=40))
def test_counts_are_those_of_a_walk(actions: list[tuple[TopicPartition, object]]) -> None:
    ctx = empty_context()
    for tp, action in actions:
        ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
        if isinstance(action, PartitionState):
            ctx.put_partition_state(tp, action)
        elif isinstance(action, ReplicaState):
            ctx.put_replica_state(ctx.replicas_of([tp])[0], action)
        else:
            ctx.remove_topic(tp.topic)
        partitions = Counter(ctx.partition_state(each) for each in ctx.all_partitions())
        replicas = Counter(map(ctx.replica_state, ctx.replicas_of(ctx.all_partitions())))
        del partitions[P.NON_EXISTENT], replicas[R.NON_EXISTENT]
        assert +ctx.census.partitions == partitions
        assert +ctx.census.replicas == replicas
        assert min(ctx.census.partitions.values(), default=0) >= 0
        assert min(ctx.census.replicas.values(), default=0) >= 0


def test_transitions_are_counted_and_found_states_are_not() -> None:
    ctx = empty_context()
    tp = TopicPartition("t", 0)
    ctx.set_assignment(tp, ReplicaAssignment((1, 2)))
    partition_machine.to_new(ctx, [tp])
    partition_machine.to_offline(ctx, [tp])
    ctx.put_partition_state(TopicPartition("found", 0), P.ONLINE)
    list(replica_machine.to_new(ctx, ctx.replicas_of([tp])))
    assert ctx.census.partition_steps == {(P.NON_EXISTENT, P.NEW): 1, (P.NEW, P.OFFLINE): 1}
    assert ctx.census.replica_steps == {(R.NON_EXISTENT, R.NEW): 2}
    assert ctx.census.partitions[P.ONLINE] == 1


def test_the_legal_steps_are_the_tables() -> None:
    assert len(legal_partition_steps()) == 8 and len(legal_replica_steps()) == 14
    assert all(old in VALID_PREVIOUS[new] for old, new in legal_partition_steps())
