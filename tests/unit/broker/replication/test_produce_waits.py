"""Produce requests that wait for followers."""

from __future__ import annotations

import pytest

from ottla.broker.replication.produce_waits import ProduceQueue, ProduceWait, SingleProduceWait
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


class WatchedWait:
    """Counts how often it is looked at."""

    def __init__(self) -> None:
        self.is_over = False
        self.looks = 0
        self.answers: list[ErrorCode] = []

    @property
    def done(self) -> bool:
        self.looks += 1
        return self.is_over

    def add(self, tp: TopicPartition, queue: ProduceQueue) -> None:
        """Needs no queue: the test sweeps."""

    def resolve(self, tp: TopicPartition, error: ErrorCode) -> None:
        self.answers.append(error)


@pytest.mark.parametrize("is_backwards", [False, True])
def test_many_time_outs_look_at_each_wait_a_few_times_only(is_backwards: bool) -> None:
    queue, count = ProduceQueue(TP), 2000
    first, *others = waits = [WatchedWait() for _ in range(count)]
    for offset, wait in enumerate(waits):
        queue.add(offset, wait)
    # The first one goes on waiting, in the way of all that end behind it.
    for told, wait in enumerate(others[::-1] if is_backwards else others, start=1):
        wait.is_over = True
        queue.sweep()
        assert len(queue) <= 2 * (count - told), "those that are done are never many more"
    assert sum(wait.looks for wait in waits) < 6 * count
    assert len(queue) <= 2 and first.answers == []
    queue.reached(count, ErrorCode.NONE)
    assert first.answers == [ErrorCode.NONE] and len(queue) == 0


def test_what_is_done_at_the_front_goes_at_once() -> None:
    queue, waits = ProduceQueue(TP), [WatchedWait() for _ in range(100)]
    for wait in waits:
        queue.add(1, wait)
    for wait in waits[:-1]:
        wait.is_over = True
    queue.sweep()
    assert len(queue) == 1
    queue.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [bool(wait.answers) for wait in waits] == [False] * 99 + [True]


async def test_a_sweep_leaves_those_that_still_wait_in_order() -> None:
    timeouts, queue = Timeouts(), ProduceQueue(TP)
    ends: list[tuple[int, ErrorCode]] = []
    for number in range(9):

        def on_end(error: ErrorCode, number: int = number) -> None:
            ends.append((number, error))

        queue.add(number, SingleProduceWait(timeouts, 60_000 if number % 3 else 0, on_end))
    # Schedules one more, which is the last to end.
    last = ProduceWait(timeouts, 5)
    queue.add(9, last)
    await last.future
    assert ends == [(number, ErrorCode.REQUEST_TIMED_OUT) for number in (0, 3, 6)]
    ends.clear()
    queue.reached(4, ErrorCode.NONE)
    assert ends == [(number, ErrorCode.NONE) for number in (1, 2, 4)]
    queue.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [number for number, _ in ends[3:]] == [5, 7, 8]
    timeouts.close()


async def test_a_wait_that_nobody_waits_for_leaves_its_queue_in_time() -> None:
    timeouts, queue = Timeouts(), ProduceQueue(TP)
    given_up, after = ProduceWait(timeouts, 1), ProduceWait(timeouts, 10)
    queue.add(1, given_up)
    given_up.future.cancel()
    ProduceQueue(TP).add(1, after)
    await after.future
    assert len(queue) == 0 and given_up.errors == {}
