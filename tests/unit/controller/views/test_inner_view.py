"""The answer to ControllerView."""

from __future__ import annotations

from ottla.controller import partition_machine
from ottla.controller.events import Event, Startup, TopicChange
from ottla.controller.queue import EventQueue
from ottla.controller.views.inner_view import EVENTS_NAMED, MAX_EVENTS, controller_view
from ottla.metadata.znodes import ReplicaAssignment
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.controller.contexts import empty_context

TP = TopicPartition("t", 0)


def view(
    request: m.ControllerViewRequest | None = None,
    queue: EventQueue | None = None,
    *,
    events: int = 0,
) -> m.ControllerViewResponse:
    ctx = empty_context()
    ctx.set_assignment(TP, ReplicaAssignment((1,)))
    partition_machine.to_new(ctx, [TP])
    for number in range(events):
        ctx.journal.record("topic", topic=f"other{number % 2}")
    answer = controller_view(
        request or m.ControllerViewRequest(),
        ctx,
        ctx.journal,
        EventQueue() if queue is None else queue,
        elected_ms=5,
        now_ms=9,
        loop_s=100.0,
    )
    # As it goes over the wire.
    decoded, _ = m.ControllerViewResponse.decode(answer.encode(0), 0)
    return decoded


def test_states_and_transitions() -> None:
    answer = view()
    counts = {(s.machine, s.state): s.count for s in answer.states}
    assert len(counts) == 4 + 7 and counts["partition", "NewPartition"] == 1
    steps = {(t.machine, t.from_state, t.to_state): t.count for t in answer.transitions}
    assert steps["partition", "NonExistentPartition", "NewPartition"] == 1
    assert steps["partition", "NewPartition", "OnlinePartition"] == 0
    assert sum(steps.values()) == 1
    (event,) = answer.events
    assert (event.topic, event.partition, event.to_state) == ("t", 0, "NewPartition")
    assert (event.broker, event.leader, event.isr, event.replicas) == (-1, -2, None, [1])


def test_events_come_in_pages_and_by_topic() -> None:
    first = view(m.ControllerViewRequest(limit=2), events=4)
    assert [event.sequence for event in first.events] == [1, 2] and first.next_since == 2
    rest = view(m.ControllerViewRequest(since=2, topic="other1"), events=4)
    assert [event.sequence for event in rest.events] == [3, 5] and rest.next_since == 5


def test_a_page_ends_at_its_last_event_even_where_others_follow() -> None:
    page = view(m.ControllerViewRequest(topic="other0", limit=1), events=4)
    assert [event.sequence for event in page.events] == [2] and page.next_since == 2
    end = view(m.ControllerViewRequest(since=4, topic="other0", limit=1), events=4)
    assert end.events == [] and end.next_since == 5


def test_bad_numbers_are_harmless() -> None:
    huge = view(m.ControllerViewRequest(limit=2**31 - 1), events=2_000)
    assert len(huge.events) == MAX_EVENTS
    for since in (-1, -(2**63)):
        answer = view(m.ControllerViewRequest(since=since), events=3)
        assert answer.events == [] and answer.next_since == 4
    for limit in (0, -(2**31)):
        answer = view(m.ControllerViewRequest(since=1, limit=limit), events=3)
        assert answer.events == [] and answer.next_since == 1
    beyond = view(m.ControllerViewRequest(since=2**63 - 1), events=3)
    assert beyond.events == [] and beyond.next_since == 4


async def test_the_queue() -> None:
    queue = EventQueue()
    queue.put(Startup())
    queue.put(TopicChange())
    await queue.get()
    answer = view(queue=queue)
    assert answer.in_hand == "Startup" and answer.events_taken == 1
    assert [event.name for event in answer.queue] == ["TopicChange"]
    queue.done()
    assert view(queue=queue).in_hand is None


async def test_a_long_queue_is_cut() -> None:
    queue = EventQueue()
    for _ in range(3 * EVENTS_NAMED):
        queue.put(_Distinct())
    answer = view(queue=queue)
    assert answer.queue_length == 3 * EVENTS_NAMED and len(answer.queue) == EVENTS_NAMED


class _Distinct(Event):
    """Equal to no other."""

    name = "Distinct"

    __eq__ = object.__eq__
    __hash__ = object.__hash__
