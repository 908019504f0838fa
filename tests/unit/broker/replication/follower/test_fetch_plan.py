"""The follower's side of a fetch session."""

from __future__ import annotations

from ottla.broker.replication.fetch_protocol import FetchPartition
from ottla.broker.replication.follower.fetch_plan import FollowerSession
from ottla.types import TopicPartition

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_followers_side_names_only_changes() -> None:
    session = FollowerSession()
    one, two = FetchPartition(0, 10), FetchPartition(5, 10)
    assert session.starts_over
    plan = session.full_plan({TP: one, OTHER: two})
    assert (plan.session_id, plan.session_epoch) == (0, 0) and len(plan.wanted) == 2
    session.answered(77)
    assert not session.starts_over
    plan = session.plan({TP: one})
    assert (plan.session_id, plan.session_epoch, plan.wanted) == (77, 1, {})
    session.answered(77)
    plan = session.plan({TP: two}, [OTHER])
    assert plan.session_epoch == 2 and plan.wanted == {TP: two} and plan.forgotten == [OTHER]
    assert session.told == {TP: two}
    session.answered(77)
    assert session.plan({}, [OTHER]).forgotten == []
    session.failed()
    assert session.starts_over
    plan = session.full_plan({TP: two})
    assert (plan.session_id, plan.session_epoch, plan.wanted) == (77, 0, {TP: two})
    session.answered(0)
    assert session.starts_over
