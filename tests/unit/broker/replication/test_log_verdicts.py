"""Whose a log is: every way in which a topic can stand in the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.replication.log_verdicts import Verdict, has_moved_away, judge
from ottla.metadata.ended import EndedTopic
from ottla.metadata.znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from ottla.types import ZERO_TOPIC_ID, TopicPartition

OWN, OTHER = b"o" * 16, b"n" * 16


def log(topic_id: bytes = OWN, end_offset: int = 3, epoch: int = 4) -> Any:
    return SimpleNamespace(
        tp=TopicPartition("t", 0),
        topic_id=topic_id,
        end_offset=end_offset,
        epochs=SimpleNamespace(latest=epoch),
    )


def topic(topic_id: bytes | None, *replicas: int, partition: int = 0) -> TopicAssignment:
    return TopicAssignment({partition: ReplicaAssignment(replicas)}, topic_id)


def ended(*ids: bytes, name: str = "t") -> dict[bytes, EndedTopic]:
    return {topic_id: EndedTopic(name, ()) for topic_id in ids}


@pytest.mark.parametrize(
    ("found", "evidence", "verdict"),
    [
        (None, {}, Verdict.STRAY),
        (None, ended(OTHER), Verdict.STRAY),
        (None, ended(OWN), Verdict.ENDED),
        # Renamed, then deleted.
        (None, ended(OWN, name="u"), Verdict.ENDED),
        (topic(OTHER, 1), {}, Verdict.STRAY),
        (topic(OTHER, 1), ended(OTHER), Verdict.STRAY),
        (topic(OTHER, 1), ended(OWN), Verdict.ENDED),
        (topic(OWN, 1), {}, Verdict.OURS),
        # The deletion is under way, and may be called off.
        (topic(OWN, 1), ended(OWN), Verdict.OURS),
        (topic(OWN, 2), {}, Verdict.OURS),
        (topic(OWN, 1, partition=1), {}, Verdict.STRAY),
        (topic(OWN, 1, partition=1), ended(OWN), Verdict.STRAY),
        (topic(None, 1), {}, Verdict.OURS),
        (topic(None, 1), ended(OWN), Verdict.OURS),
    ],
)
def test_a_log_with_an_id(found: Any, evidence: Any, verdict: Verdict) -> None:
    assert judge(log(), found, evidence) is verdict


@pytest.mark.parametrize("evidence", [{}, ended(OWN), ended(ZERO_TOPIC_ID)])
def test_a_log_without_an_id_goes_only_if_nothing_is_in_it(evidence: Any) -> None:
    assert judge(log(ZERO_TOPIC_ID), None, evidence) is Verdict.STRAY
    assert judge(log(ZERO_TOPIC_ID, 0), None, evidence) is Verdict.ENDED
    assert judge(log(ZERO_TOPIC_ID), topic(OTHER, 1), evidence) is Verdict.OURS
    assert judge(log(ZERO_TOPIC_ID, 0), topic(OTHER, 1), evidence) is Verdict.OURS


@pytest.mark.parametrize("evidence", [{}, ended(OWN)])
def test_a_log_without_an_id_is_not_of_a_topic_that_has_no_such_partition(evidence: Any) -> None:
    """A power cut took the id, then the name went to a topic with fewer partitions."""
    fewer = topic(OTHER, 1, partition=1)
    assert judge(log(ZERO_TOPIC_ID), fewer, evidence) is Verdict.STRAY
    assert judge(log(ZERO_TOPIC_ID, 0), fewer, evidence) is Verdict.ENDED


def test_a_topic_without_an_id_may_have_made_any_log_of_its_name() -> None:
    assert judge(log(ZERO_TOPIC_ID, 0), topic(None, 1, partition=1), {}) is Verdict.OURS


def state(leader: int, epoch: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr or (leader,), 1, 0)


@pytest.mark.parametrize(
    ("found", "stored", "dying", "moved"),
    [
        (topic(OWN, 2), state(2, 5), False, True),
        (topic(OWN, 1, 2), state(2, 5), False, False),
        (topic(OTHER, 2), state(2, 5), False, False),
        (topic(None, 2), state(2, 5), False, False),
        (topic(OWN, 2, partition=1), state(2, 5), False, False),
        # A list edited by hand leaves leader and ISR where they were.
        (topic(OWN, 2), state(1, 5), False, False),
        (topic(OWN, 2), state(3, 5, 3, 1), False, False),
        # The log has seen a later epoch than the store: the store is a backup, or made by hand.
        (topic(OWN, 2), state(2, 4), False, False),
        (topic(OWN, 2), state(2, 0), False, False),
        (topic(OWN, 2), None, False, False),
        (topic(OWN, 2), None, True, True),
        (topic(OWN, 2), state(2, 4), True, True),
        (topic(OWN, 1), None, True, False),
    ],
)
def test_moved_away(found: Any, stored: Any, dying: bool, moved: bool) -> None:
    assert has_moved_away(log(), 1, found, stored, is_being_deleted=dying) is moved
    assert not has_moved_away(log(ZERO_TOPIC_ID), 1, found, stored, is_being_deleted=dying)
