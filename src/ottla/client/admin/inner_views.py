"""What Ottla's brokers and its controller have in their heads (ADR 41); None on Apache Kafka."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.admin.session import AdminSession
from ottla.client.cluster import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID, format_topic_id
from ottla.wire import messages as m

# Leader of an event that tells of none; -1 is a partition without a leader.
_NOT_TOLD = -2


@dataclass(frozen=True, slots=True)
class TopicNote:
    """One thing that a broker did about a topic. `kind` is request, znodes, folder-made,
    folder-renamed, folder-removed, leader or follower; `partitions` are the first of `count`."""

    sequence: int
    ts_ms: int
    kind: str
    topic: str
    count: int
    partitions: list[int]
    api: str | None = None
    client_id: str | None = None
    principal: str | None = None
    # The znode, or the folder of the first partition.
    place: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerView:
    """Counters since `started_ms`; the notes after the sequence number that was asked for.

    Where `next_since` was given as `since` and is below `first_sequence` - 1, notes were lost in
    between; where `started_ms` is another one, sequence numbers have begun again.
    """

    broker_id: int
    started_ms: int
    clock_ms: int
    bytes_in: int
    bytes_out: int
    messages_in: int
    replication_bytes_in: int
    replication_bytes_out: int
    requests: int
    connections: int
    under_replicated: int
    leaders: int
    partitions: int
    max_lag: int
    first_sequence: int = 1
    next_since: int = 0
    notes: list[TopicNote] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StateCount:
    """`machine` is partition or replica."""

    machine: str
    state: str
    count: int


@dataclass(frozen=True, slots=True)
class TransitionCount:
    """A legal transition, and how often it was taken since the controller was elected."""

    machine: str
    from_state: str
    to_state: str
    count: int


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    name: str
    waited_ms: int


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """As in the lifecycle topic; None for what an event does not tell."""

    sequence: int
    ts_ms: int
    controller_epoch: int
    event: str
    kind: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    broker: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    cause: str | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerView:
    """Every state and every legal transition is listed, those that count nothing included."""

    broker_id: int
    epoch: int
    elected_ms: int
    clock_ms: int
    states: list[StateCount]
    transitions: list[TransitionCount]
    illegal_transitions: int
    queue_length: int
    queue: list[QueuedEvent]
    in_hand: str | None
    in_hand_ms: int
    events_taken: int
    first_sequence: int = 1
    next_since: int = 0
    events: list[JournalEvent] = field(default_factory=list)


class InnerViewCalls(AdminSession):
    async def broker_view(
        self, broker_id: int, *, since: int = 0, limit: int = 1000
    ) -> BrokerView | None:
        """None where the broker is not Ottla's."""
        request = m.BrokerViewRequest(since=since, limit=limit)
        answer = await _known(
            self.cluster.send_to_broker(broker_id, request, timeout_ms=self._timeout_ms)
        )
        return None if answer is None else _broker_view(answer)

    async def controller_view(
        self, *, since: int = 0, topic: str | None = None, limit: int = 1000
    ) -> ControllerView | None:
        """None where the controller is not Ottla's."""
        request = m.ControllerViewRequest(since=since, topic=topic, limit=limit)
        answer = await _known(
            self.cluster.send_to_controller(
                request,
                timeout_ms=self._timeout_ms,
                is_misdirected=lambda found: found.error_code == ErrorCode.NOT_CONTROLLER,
            )
        )
        return None if answer is None else _controller_view(answer)


async def _known(sending: Awaitable[Any]) -> Any:
    try:
        answer = await sending
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    if answer.error_code:
        raise response_error(answer.error_code)
    return answer


def _broker_view(answer: m.BrokerViewResponse) -> BrokerView:
    return BrokerView(
        broker_id=answer.broker_id,
        started_ms=answer.started_ms,
        clock_ms=answer.clock_ms,
        bytes_in=answer.bytes_in,
        bytes_out=answer.bytes_out,
        messages_in=answer.messages_in,
        replication_bytes_in=answer.replication_bytes_in,
        replication_bytes_out=answer.replication_bytes_out,
        requests=answer.requests,
        connections=answer.connections,
        under_replicated=answer.under_replicated,
        leaders=answer.leaders,
        partitions=answer.partitions,
        max_lag=answer.max_lag,
        first_sequence=answer.first_sequence,
        next_since=answer.next_since,
        notes=[
            TopicNote(
                note.sequence,
                note.timestamp_ms,
                note.kind,
                note.topic,
                note.count,
                note.partitions,
                note.api,
                note.client_id,
                note.principal,
                note.place,
            )
            for note in answer.notes
        ],
    )


def _controller_view(answer: m.ControllerViewResponse) -> ControllerView:
    return ControllerView(
        broker_id=answer.broker_id,
        epoch=answer.epoch,
        elected_ms=answer.elected_ms,
        clock_ms=answer.clock_ms,
        states=[StateCount(entry.machine, entry.state, entry.count) for entry in answer.states],
        transitions=[
            TransitionCount(entry.machine, entry.from_state, entry.to_state, entry.count)
            for entry in answer.transitions
        ],
        illegal_transitions=answer.illegal_transitions,
        queue_length=answer.queue_length,
        queue=[QueuedEvent(entry.name, entry.waited_ms) for entry in answer.queue],
        in_hand=answer.in_hand,
        in_hand_ms=answer.in_hand_ms,
        events_taken=answer.events_taken,
        first_sequence=answer.first_sequence,
        next_since=answer.next_since,
        events=[_journal_event(event) for event in answer.events],
    )


def _journal_event(event: m.ControllerViewResponse.JournalEvent) -> JournalEvent:
    return JournalEvent(
        sequence=event.sequence,
        ts_ms=event.timestamp_ms,
        controller_epoch=event.controller_epoch,
        event=event.event,
        kind=event.kind,
        topic=event.topic,
        topic_id=None if event.topic_id == ZERO_TOPIC_ID else format_topic_id(event.topic_id),
        partition=_told(event.partition, -1),
        broker=_told(event.broker, -1),
        from_state=event.from_state,
        to_state=event.to_state,
        cause=event.cause,
        leader=_told(event.leader, _NOT_TOLD),
        leader_epoch=_told(event.leader_epoch, -1),
        isr=event.isr,
        replicas=event.replicas,
        error=event.error,
    )


def _told(value: int, absent: int) -> int | None:
    return None if value == absent else value
