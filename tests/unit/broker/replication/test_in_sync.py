"""The in-sync replicas of a partition and changes of them that are on their way."""

from __future__ import annotations

import pytest

from ottla.broker.replication.alter_isr import IsrAnswer
from ottla.broker.replication.in_sync import InSyncReplicas
from ottla.errors import ErrorCode
from tests.support.broker.replica_cluster import TP, RecordedIsr


class Asked:
    """In-sync replicas of epoch 4 that asked for a second member."""

    def __init__(self) -> None:
        self.controller = RecordedIsr()
        self.losses: list[bool] = []
        self.in_sync = InSyncReplicas(TP, self.controller, self.losses.append)
        self.in_sync.begin(4, 10, [0])
        self.in_sync.ask_for((0, 1))


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_change_counts_for_the_high_watermark_before_it_is_answered(asked: Asked) -> None:
    in_sync = asked.in_sync
    assert (in_sync.members, in_sync.in_flight, in_sync.maximal) == ((0,), (0, 1), {0, 1})
    asked.controller.accept()
    assert (in_sync.members, in_sync.in_flight, in_sync.partition_epoch) == ((0, 1), None, 11)
    in_sync.ask_for((0,))
    assert in_sync.maximal == {0, 1}
    asked.controller.accept()
    assert in_sync.maximal == {0} and asked.losses == [False, True]


@pytest.mark.parametrize(
    ("error", "in_flight", "asks_again"),
    [
        (ErrorCode.INVALID_UPDATE_VERSION, (0, 1), False),
        (ErrorCode.INELIGIBLE_REPLICA, None, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, (0, 1), True),
    ],
)
def test_a_refusal_sticks_is_given_up_or_is_asked_again(
    asked: Asked, error: ErrorCode, in_flight: tuple[int, ...] | None, asks_again: bool
) -> None:
    asked.controller.refuse(error)
    assert asked.in_sync.in_flight == in_flight
    assert (TP in asked.controller.changes) is asks_again
    assert asked.in_sync.members == (0,) and asked.losses == []


def test_a_new_state_makes_the_answer_moot(asked: Asked) -> None:
    change = asked.controller.changes[TP]
    asked.in_sync.begin(5, 12, [0, 2])
    assert TP not in asked.controller.changes
    change.answered(IsrAnswer(ErrorCode.NONE, 0, 4, (0, 1), 11))
    assert (asked.in_sync.members, asked.in_sync.partition_epoch) == ((0, 2), 12)


def test_only_a_newer_version_is_taken_from_the_metadata(asked: Asked) -> None:
    asked.in_sync.catch_up_with([0, 1], 10)
    assert asked.in_sync.in_flight == (0, 1)
    asked.in_sync.catch_up_with([0, 1], 11)
    assert (asked.in_sync.in_flight, asked.in_sync.members) == (None, (0, 1))
    assert TP not in asked.controller.changes
