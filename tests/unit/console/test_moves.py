from __future__ import annotations

from ottla.client.admin.types import Reassignment
from ottla.console.moves import Copy, plan_moves, running_moves
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_plan_says_what_it_copies_and_leaves_out_what_is_there_already() -> None:
    plan = plan_moves(
        {T0: [3, 4], T1: [1, 2]}, {T0: [1, 2], T1: [1, 2]}, {T0: 1, T1: 1}, {(1, T0): 100}, {}
    )
    (move,) = plan.moves
    assert (move.partition, move.adding, move.removing, move.bytes) == (0, [3, 4], [1, 2], 100)
    assert plan.bytes == 200  # once to each


def test_another_order_copies_nothing() -> None:
    plan = plan_moves({T0: [2, 1]}, {T0: [1, 2]}, {T0: 1}, {(1, T0): 100}, {})
    assert (plan.moves[0].bytes, plan.bytes) == (0, 0)


def test_a_size_that_nobody_knows_is_said_to_be_unknown() -> None:
    plan = plan_moves({T0: [3]}, {T0: [1]}, {T0: -1}, {}, {})
    assert plan.moves[0].bytes is None


def test_fewer_racks_and_fewer_replicas_are_warned_of() -> None:
    racks = {1: "a", 2: "b", 3: "a"}
    plan = plan_moves({T0: [1, 3], T1: [1]}, {T0: [1, 2], T1: [1, 2]}, {}, {}, racks)
    assert plan.warnings == [
        "t-0 will be in fewer racks than now.",
        "t-1 will have 1 replicas instead of 2.",
    ]


def test_how_far_a_move_is() -> None:
    moves = {T0: Reassignment([1, 2, 3], [3], [1])}
    (found,) = running_moves(moves, {T0: 1}, {(1, T0): 100, (3, T0): 40})
    assert (found.leader_bytes, found.copies) == (100, [Copy(3, 40)])
