"""The controller's head as an answer to ControllerView (ADR 41): states, steps, queue, journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.controller.census import Census, legal_partition_steps, legal_replica_steps
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.controller.context import ControllerContext
    from ottla.controller.journal import Journal, LifecycleEvent
    from ottla.controller.queue import EventQueue

MAX_EVENTS = 1_000
EVENTS_NAMED = 50
_PARTITION, _REPLICA = "partition", "replica"
# A partition without a leader has -1; this one is not told of.
_NOT_TOLD = -2

Response = m.ControllerViewResponse


def controller_view(
    request: m.ControllerViewRequest,
    ctx: ControllerContext,
    journal: Journal,
    queue: EventQueue,
    *,
    elected_ms: int,
    now_ms: int,
    loop_s: float,
) -> m.ControllerViewResponse:
    """`now_ms` is the time of day, `loop_s` the clock by which the queue reckons its waits."""
    limit = min(max(request.limit, 0), MAX_EVENTS)
    events: list[tuple[int, LifecycleEvent]] = []
    next_since = request.since
    if request.since < 0:
        next_since = journal.last
    elif limit:
        events, next_since = journal.since(request.since, request.topic, limit)
    in_hand = queue.in_hand
    return Response(
        broker_id=ctx.broker_id,
        epoch=ctx.epoch,
        elected_ms=elected_ms,
        clock_ms=now_ms,
        states=_states(ctx.census),
        transitions=_transitions(ctx.census),
        illegal_transitions=journal.illegal_transitions,
        queue_length=len(queue),
        queue=[
            Response.QueuedEvent(
                name=queued.event.name, waited_ms=_ms_since(queued.since_s, loop_s)
            )
            for queued in queue.first(EVENTS_NAMED)
        ],
        in_hand=None if in_hand is None else in_hand.event.name,
        in_hand_ms=0 if in_hand is None else _ms_since(queue.in_hand_since_s, loop_s),
        events_taken=queue.taken,
        first_sequence=journal.first,
        next_since=next_since,
        events=[_event(sequence, event) for sequence, event in events],
    )


def _ms_since(begun_s: float, now_s: float) -> int:
    """An event that was put first has no time."""
    return max(0, int((now_s - begun_s) * 1000)) if begun_s else 0


def _states(census: Census) -> list[Response.StateCount]:
    return [
        Response.StateCount(machine=_PARTITION, state=p.title, count=census.partitions[p])
        for p in PartitionState
    ] + [
        Response.StateCount(machine=_REPLICA, state=r.title, count=census.replicas[r])
        for r in ReplicaState
    ]


def _transitions(census: Census) -> list[Response.TransitionCount]:
    """All that the tables allow, those that were never taken included."""
    counted: Iterable[tuple[str, str, str, int]] = [
        (_PARTITION, old.title, new.title, census.partition_steps[old, new])
        for old, new in legal_partition_steps()
    ] + [
        (_REPLICA, before.title, after.title, census.replica_steps[before, after])
        for before, after in legal_replica_steps()
    ]
    return [
        Response.TransitionCount(machine=machine, from_state=source, to_state=target, count=count)
        for machine, source, target, count in counted
    ]


def _event(sequence: int, event: LifecycleEvent) -> Response.JournalEvent:
    return Response.JournalEvent(
        sequence=sequence,
        timestamp_ms=event.ts_ms,
        controller_epoch=event.controller_epoch,
        event=event.event,
        kind=event.kind,
        topic=event.topic,
        topic_id=event.topic_id or ZERO_TOPIC_ID,
        partition=-1 if event.partition is None else event.partition,
        broker=-1 if event.broker is None else event.broker,
        from_state=event.from_state,
        to_state=event.to_state,
        cause=event.cause,
        leader=_NOT_TOLD if event.leader is None else event.leader,
        leader_epoch=-1 if event.leader_epoch is None else event.leader_epoch,
        isr=None if event.isr is None else list(event.isr),
        replicas=None if event.replicas is None else list(event.replicas),
        error=event.error,
    )
