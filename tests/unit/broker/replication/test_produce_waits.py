"""Produce requests that wait for followers."""

from __future__ import annotations

from ottla.broker.replication.produce_waits import ProduceQueue, ProduceWait
from ottla.broker.replication.timeouts import Timeouts
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from tests.support.broker.replica_cluster import TP


async def test_produce_waits_are_answered_in_order_and_once() -> None:
    timeouts = Timeouts()
    one, two = ProduceQueue(TP), ProduceQueue(TopicPartition("u", 0))
    wait = ProduceWait(timeouts, 20)
    one.add(5, wait)
    two.add(3, wait)
    one.reached(4, ErrorCode.NONE)
    assert len(one) == 1
    one.reached(5, ErrorCode.NONE)
    assert not wait.done
    await wait.future
    assert wait.errors == {
        TP: ErrorCode.NONE,
        TopicPartition("u", 0): ErrorCode.REQUEST_TIMED_OUT,
    }
    assert len(two) == 0
    two.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert wait.errors[TP] is ErrorCode.NONE
