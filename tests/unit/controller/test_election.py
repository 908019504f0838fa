"""Elections are functions of the replicas, the state, and who is online."""

from __future__ import annotations

from ottla.controller import election
from ottla.metadata.znodes import LeaderAndIsr

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
    assert not election.needs_unclean((3, 2, 1), CURRENT, online())
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
