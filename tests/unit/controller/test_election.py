"""The pure parts: elections, the two transition tables, imbalance, membership."""

from __future__ import annotations

import itertools

import pytest

from ottla.controller import election, partition_states, replica_states
from ottla.controller.config import ControllerConfig
from ottla.controller.context import ControllerContext
from ottla.controller.decisions.brokers import Registered, compare, supports
from ottla.controller.decisions.leader_election import imbalanced_partitions
from ottla.controller.journal import Journal
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.types import TopicPartition
from tests.support.controller.controlled_cluster import runtime

P, R = PartitionState, ReplicaState
VALID_PARTITION_PAIRS = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.ONLINE, P.ONLINE),
    (P.OFFLINE, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
HOSTED = (R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE)
VALID_REPLICA_PAIRS = {
    (R.NON_EXISTENT, R.NEW),
    *((state, R.ONLINE) for state in HOSTED),
    *((state, R.OFFLINE) for state in HOSTED),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(P, P)))
def test_partition_transitions(source: P, target: P) -> None:
    expected = (source, target) in VALID_PARTITION_PAIRS
    assert partition_states.is_valid(source, target) == expected


@pytest.mark.parametrize(("source", "target"), list(itertools.product(R, R)))
def test_replica_transitions(source: R, target: R) -> None:
    assert replica_states.is_valid(source, target) == ((source, target) in VALID_REPLICA_PAIRS)


CURRENT = LeaderAndIsr(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=9, zk_version=6)


def online(*brokers: int) -> election.Online:
    return lambda broker: broker in brokers


def test_offline_election_takes_the_first_online_isr_member() -> None:
    won = election.elect_offline((3, 2, 1), CURRENT, online(2, 3), unclean=False)
    assert won is not None
    assert won.state == LeaderAndIsr(2, 5, (2,), 9, 6)
    assert won.recipients == (3, 2)


def test_offline_election_goes_outside_the_isr_only_when_unclean() -> None:
    assert election.elect_offline((3, 2, 1), CURRENT, online(3), unclean=False) is None
    assert election.needs_unclean((3, 2, 1), CURRENT, online(3))
    assert not election.needs_unclean((3, 2, 1), CURRENT, online(2))
    won = election.elect_offline((3, 2, 1), CURRENT, online(3), unclean=True)
    assert won is not None and won.state == LeaderAndIsr(3, 5, (3,), 9, 6)
    assert election.elect_offline((3, 2, 1), CURRENT, online(), unclean=True) is None


def test_preferred_election_is_the_first_replica_or_nobody() -> None:
    won = election.elect_preferred((2, 1), CURRENT, online(1, 2))
    assert won is not None
    assert (won.state.leader, won.state.isr, won.recipients) == (2, (1, 2), (2, 1))
    assert election.elect_preferred((2, 1), CURRENT, online(1)) is None
    assert election.elect_preferred((3, 1), CURRENT, online(1, 3)) is None
    assert election.elect_preferred((), CURRENT, online(1)) is None


def test_reassignment_election_looks_at_the_target_only() -> None:
    won = election.elect_for_reassignment((4, 2), CURRENT, online(1, 2, 4))
    assert won is not None and won.state.leader == 2 and won.recipients == (4, 2)
    assert election.elect_for_reassignment((4,), CURRENT, online(4)) is None


def test_shutdown_election_leaves_out_everyone_who_leaves() -> None:
    won = election.elect_for_shutdown((1, 2), CURRENT, online(1, 2), {1})
    assert won is not None
    assert won.state == LeaderAndIsr(2, 5, (2,), 9, 6)
    assert won.recipients == (1, 2)
    assert election.elect_for_shutdown((1, 2), CURRENT, online(1, 2), {1, 2}) is None


def test_the_last_isr_member_stays() -> None:
    alone = CURRENT._replace(isr=(1,))
    assert election.without_replica(alone, 1, 9) == LeaderAndIsr(-1, 5, (1,), 9, 6)
    assert election.without_replica(CURRENT, 2, 9) == LeaderAndIsr(1, 5, (1,), 9, 6)


def test_first_leadership_needs_a_live_replica() -> None:
    assert election.first_leadership((3, 2), online(2), 9) == LeaderAndIsr(2, 0, (2,), 9, 0)
    assert election.first_leadership((3, 2), online(), 9) is None


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


def context(**config: int) -> ControllerContext:
    journal = Journal(runtime().clock, 0)
    return ControllerContext(
        0, ControllerConfig(**config), journal, bytes, epoch=1, epoch_zk_version=1
    )


def test_imbalance_counts_per_preferred_broker() -> None:
    ctx = context(leader_imbalance_per_broker_percentage=10)
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


def test_replica_states_are_counted_per_topic() -> None:
    ctx = context()
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


def test_members_that_came_back_unseen_are_passed_over() -> None:
    replicas = (1, 2, 3)
    current = CURRENT._replace(isr=(1, 2, 3))
    passed = election.without_returned(replicas, current, [1], online(1, 3))
    assert passed == current._replace(leader=3, leader_epoch=5, isr=(2, 3))
    passed = election.without_returned(replicas, current, [2], online(1, 2, 3))
    assert passed == current._replace(leader_epoch=5, isr=(1, 3))
    # Nobody else is up, or nobody came back.
    assert election.without_returned(replicas, current, [1], online(1)) is None
    assert election.without_returned(replicas, current, [4], online(1, 2, 3)) is None


def test_where_all_members_came_back_unseen_the_state_is_written_as_it_is() -> None:
    replicas = (1, 2, 3)
    current = CURRENT._replace(isr=(1, 2, 3))
    everybody = election.without_returned(replicas, current, [1, 2, 3], online(1, 2, 3))
    assert everybody == current._replace(leader_epoch=5)
    # Without its leader there is an election, and one that is alone has nobody to compare with.
    assert election.without_returned(replicas, current, [1, 2, 3], online(2, 3)) is None
    alone = current._replace(isr=(1,))
    assert election.without_returned(replicas, alone, [1], online(1, 2, 3)) is None
