"""The group itself: legal transitions, choice of protocol, leaders, subscriptions."""

from __future__ import annotations

from itertools import product

import pytest

from ottla.coordinator.groups.group import (
    VALID_PREVIOUS,
    Group,
    GroupSettings,
    GroupState,
    JoinResult,
    Member,
)
from ottla.errors import ErrorCode, InvariantViolated
from tests.support.coordinator.coordinator_fakes import VirtualClock

LEGAL = {
    ("PreparingRebalance", "Empty"),
    ("Stable", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Empty", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    *((state.value, "Dead") for state in GroupState),
}


def group_of(*members: Member) -> Group:
    group = Group("g", VirtualClock(), GroupSettings())
    for member in members:
        group.add(member)
    return group


def member(
    member_id: str, *protocols: str, metadata: bytes = b"", instance_id: str | None = None
) -> Member:
    return Member(
        member_id,
        instance_id,
        "client",
        "/host",
        1000,
        1000,
        "consumer",
        tuple((name, metadata) for name in protocols),
    )


@pytest.mark.parametrize(("source", "target"), list(product(GroupState, GroupState)))
def test_transitions(source: GroupState, target: GroupState) -> None:
    group = group_of()
    group.state = source
    if (source.value, target.value) in LEGAL:
        group.transition(target)
        assert group.state is target
        assert group.state_timestamp_ms == group.clock.now_ms()
    else:
        with pytest.raises(InvariantViolated, match=f"from {source.value} to {target.value}"):
            group.transition(target)


def test_the_table_covers_every_state() -> None:
    assert set(VALID_PREVIOUS) == set(GroupState)


@pytest.mark.parametrize(
    ("members", "chosen"),
    [
        ([member("1", "range", "sticky"), member("2", "sticky", "range")], "range"),
        (
            [
                member("1", "range", "sticky"),
                member("2", "sticky", "range"),
                member("3", "sticky", "range"),
            ],
            "sticky",
        ),
        # Only what everybody supports is voted on, however many prefer something else.
        (
            [
                member("1", "range", "sticky"),
                member("2", "range", "sticky"),
                member("3", "sticky"),
            ],
            "sticky",
        ),
    ],
)
def test_the_protocol_with_most_votes_among_the_common_ones(
    members: list[Member], chosen: str
) -> None:
    assert group_of(*members).select_protocol() == chosen


def test_a_member_that_changes_its_protocols_changes_what_is_common() -> None:
    one, two = member("1", "range", "sticky"), member("2", "range", "sticky")
    group = group_of(one, two)
    group.state = GroupState.STABLE
    assert group.supports("consumer", (("range", b""),))
    group.update_protocols(two, (("sticky", b""),))
    assert not group.supports("consumer", (("range", b""),))
    group.remove("2")
    assert group.supports("consumer", (("range", b""),))
    assert not group.supports("connect", (("range", b""),))


def test_the_next_member_leads_when_the_leader_goes() -> None:
    group = group_of(member("1", "range"), member("2", "range"), member("3", "range"))
    assert group.leader_id == "1"
    group.remove("1")
    assert group.leader_id == "2"


def test_a_leader_that_did_not_join_is_replaced_by_one_who_did() -> None:
    group = group_of(member("1", "range"), member("2", "range"))
    assert not group.elect_joined_leader()
    group.wait_in_join(group.members["2"], lambda result: None)
    assert group.elect_joined_leader()
    assert group.leader_id == "2"


def test_a_repeated_join_answers_the_older_call() -> None:
    group = group_of(member("1", "range"))
    answers: list[JoinResult] = []
    group.wait_in_join(group.members["1"], answers.append)
    group.wait_in_join(group.members["1"], answers.append)
    assert [answer.error for answer in answers] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert group.waiting_in_join == 1


def test_a_renamed_static_member_keeps_its_place() -> None:
    group = group_of(member("1", "range", instance_id="a"), member("2", "range"))
    group.rename_static_member("a", "9")
    assert list(group.members) == ["9", "2"]
    assert (group.leader_id, group.static_members) == ("9", {"a": "9"})
    assert group.is_fenced("1", "a") and not group.is_fenced("9", "a")


def test_a_subscription_that_cannot_be_read_counts_as_every_topic() -> None:
    group = group_of(member("1", "range", metadata=b"\x00\x01\x7f\xff\xff\xff"))
    group.state = GroupState.PREPARING_REBALANCE
    group.start_generation()
    assert group.subscribed_topics is None
    assert group.is_subscribed("anything")
