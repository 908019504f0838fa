"""The controller's diary: lifecycle events in a bounded ring, and Kafka's state-change log.

Every event, transition and request goes through here, so that what the controller did can be read
afterwards (ring), in the state-change log, and in a topic (a listener publishes it).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ottla.runtime import Clock
from ottla.state_changes import TRACE, StateChangeLines
from ottla.types import TopicId, TopicPartition, format_topic_id

RING_CAPACITY = 10_000

logger = logging.getLogger("ottla.controller")


@dataclass(slots=True)
class LifecycleEvent:
    """One thing that happened.

    `kind` is event, partition, replica, topic, broker, request, answer, or illegal: a transition of
    a partition (of a replica where there is a broker) that was refused. Leader, ISR, replicas and
    leader epoch are the partition's after the step.
    """

    ts_ms: int
    controller_epoch: int
    event: str
    kind: str
    topic: str | None = None
    topic_id: TopicId | None = None
    partition: int | None = None
    broker: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    cause: str | None = None
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    leader_epoch: int | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The form that is published; keys without a value are left out."""
        values = {
            "ts_ms": self.ts_ms,
            "controller_epoch": self.controller_epoch,
            "event": self.event,
            "kind": self.kind,
            "topic": self.topic,
            "topic_id": None if self.topic_id is None else format_topic_id(self.topic_id),
            "partition": self.partition,
            "broker": self.broker,
            "from": self.from_state,
            "to": self.to_state,
            "leader": self.leader,
            "isr": self.isr,
            "replicas": self.replicas,
            "leader_epoch": self.leader_epoch,
            "error": self.error,
            "cause": self.cause,
        }
        return {key: value for key, value in values.items() if value is not None}


class Journal:
    """`current_event` is the event in hand: everything recorded meanwhile was caused by it."""

    def __init__(self, clock: Clock, broker_id: int, capacity: int = RING_CAPACITY) -> None:
        self._clock = clock
        self._ring: deque[LifecycleEvent] = deque(maxlen=capacity)
        # Events are numbered from 1 on, as long as the process lives.
        self.last = 0
        self._listeners: list[Callable[[LifecycleEvent], None]] = []
        self.broker_id = broker_id
        self.epoch = 0
        self.current_event = "Startup"
        # Counted for operators; both should stay at 0.
        self.unclean_elections = 0
        self.illegal_transitions = 0
        self._state_changes = StateChangeLines()

    def recent(self) -> list[LifecycleEvent]:
        return list(self._ring)

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept."""
        return self.last - len(self._ring) + 1

    def since(
        self, sequence: int, topic: str | None, limit: int
    ) -> tuple[list[tuple[int, LifecycleEvent]], int]:
        """Numbered events after `sequence`, the oldest first, and where to go on; of one topic
        also those that are of no topic are left out."""
        first = self.first
        skipped = min(max(sequence + 1 - first, 0), len(self._ring))
        found: list[tuple[int, LifecycleEvent]] = []
        for number, event in enumerate(islice(self._ring, skipped, None), first + skipped):
            if topic is None or event.topic == topic:
                if len(found) == limit:
                    return found, found[-1][0]
                found.append((number, event))
        return found, self.last

    def add_listener(self, listener: Callable[[LifecycleEvent], None]) -> None:
        """`listener` sees every event at once; it must neither wait nor raise."""
        self._listeners.append(listener)

    def record(
        self,
        kind: str,
        *,
        topic: str | None = None,
        topic_id: TopicId | None = None,
        partition: int | None = None,
        broker: int | None = None,
        from_state: str | None = None,
        to_state: str | None = None,
        cause: str | None = None,
        leader: int | None = None,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        leader_epoch: int | None = None,
        error: str | None = None,
    ) -> None:
        event = LifecycleEvent(
            self._clock.now_ms(),
            self.epoch,
            self.current_event,
            kind,
            topic,
            topic_id,
            partition,
            broker,
            from_state,
            to_state,
            cause,
            leader,
            isr,
            replicas,
            leader_epoch,
            error,
        )
        self._ring.append(event)
        self.last += 1
        for listener in self._listeners:
            listener(event)

    def unclean_election(self, tp: TopicPartition, leader: int, isr: tuple[int, ...]) -> None:
        """Counted for operators: records that only the lost members had are gone."""
        self.unclean_elections += 1
        self.state_change(
            logging.WARNING,
            "Unclean leader election of broker %d for partition %s: nobody of ISR %s is alive,"
            " records may be lost",
            leader,
            tp,
            list(isr),
        )

    def debug(self, text: str, *values: object) -> None:
        """`values` are formatted only if the line is written."""
        logger.debug("[Controller id=%d] " + text, self.broker_id, *values)

    def info(self, text: str) -> None:
        logger.info("[Controller id=%d] %s", self.broker_id, text)

    def warn(self, text: str) -> None:
        logger.warning("[Controller id=%d] %s", self.broker_id, text)

    def error(self, text: str) -> None:
        logger.error("[Controller id=%d] %s", self.broker_id, text)

    @property
    def is_tracing(self) -> bool:
        """Whether lines about every single replica and partition are wanted."""
        return self._state_changes.is_enabled(TRACE)

    def state_change(self, level: int, text: str, *values: object) -> None:
        """A line of the state-change log; `values` are formatted only if it is written."""
        if self._state_changes.is_enabled(level):
            line = text % values if values else text
            self._state_changes.add(
                level, f"[Controller id={self.broker_id} epoch={self.epoch}] {line}"
            )

    def state_changes(self, level: int, lines: Iterable[str]) -> None:
        """Many lines of one level in one go; errors are written at once, all together."""
        if self._state_changes.is_enabled(level):
            start = f"[Controller id={self.broker_id} epoch={self.epoch}] "
            self._state_changes.add_all(level, [start + line for line in lines])

    def flush(self) -> None:
        """Writes the lines that wait: many at once, before anything else is done."""
        self._state_changes.flush()
