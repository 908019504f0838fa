"""One look after the other at the controller and at all brokers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.client.admin.inner_views import BrokerView, ControllerView
from ottla.console.life.steps import Step, of_events, of_notes
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

FORMAT = "ottla-life"
MAX_STEPS = 5_000
# What one look asks for, at most: brokers keep 4,000 notes, the controller 10,000 events.
_PAGES = 10
_PAGE = 1_000
_ANSWER_S = 3.0


class State(msgspec.Struct, frozen=True):
    machine: str
    state: str
    count: int


class Transition(msgspec.Struct, frozen=True):
    machine: str
    from_state: str
    to_state: str
    count: int


class Waiting(msgspec.Struct, frozen=True):
    name: str
    waited_ms: int


class Head(msgspec.Struct, frozen=True):
    """What is in the controller's head now."""

    broker: int
    epoch: int
    elected_ms: int
    states: list[State]
    transitions: list[Transition]
    illegal_transitions: int
    queue_length: int
    queue: list[Waiting]
    in_hand: str | None
    events_taken: int


class Life(msgspec.Struct, frozen=True):
    """`head` is None where the controller is not Ottla's. `brokers` are those that answered."""

    head: Head | None = None
    brokers: list[int] = []
    steps: list[Step] = []


class Record(msgspec.Struct, frozen=True):
    """A file that the page can play again."""

    format: str
    version: int
    saved_ms: int
    life: Life


class LifeWatch:
    """A live source: remembers the last steps, and where each broker's notes go on."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._steps: deque[Step] = deque(maxlen=MAX_STEPS)
        self._life: Life | None = None
        # Broker or controller -> the life its numbers belong to, and the last number seen.
        self._seen: dict[str, tuple[int, int]] = {}

    async def poll(self) -> Life | None:
        head, steps = await self._look_at_controller()
        brokers: list[int] = []
        if head is not None:
            nodes = await self._admin.cluster.nodes()
            looks = await asyncio.gather(
                *(self._look_at_broker(node.id) for node in nodes), return_exceptions=True
            )
            for node, look in zip(nodes, looks, strict=True):
                if isinstance(look, list):
                    brokers.append(node.id)
                    steps += look
                elif not isinstance(look, (KafkaError, OSError)):
                    raise look
        steps.sort(key=lambda step: step.order)
        self._steps.extend(steps)
        before, self._life = self._life, Life(head, brokers)
        if not steps and self._life == before:
            return None
        return Life(head, brokers, steps)

    def whole(self) -> Life | None:
        if self._life is None:
            return None
        return msgspec.structs.replace(self._life, steps=list(self._steps))

    async def _look_at_controller(self) -> tuple[Head | None, list[Step]]:
        steps: list[Step] = []
        view: ControllerView | None = None
        for _ in range(_PAGES):
            since = self._since("controller")
            view = await _in_time(self._admin.controller_view(since=since, limit=_PAGE))
            if view is None:
                return None, []
            if self._note("controller", view.epoch, view.next_since):
                continue  # another controller: its numbers begin anew
            steps += of_events(view.epoch, view.events)
            if len(view.events) < _PAGE:
                break
        return None if view is None else _head(view), steps

    async def _look_at_broker(self, broker_id: int) -> list[Step]:
        steps: list[Step] = []
        name = f"broker-{broker_id}"
        view: BrokerView | None = None
        for _ in range(_PAGES):
            since = self._since(name)
            view = await _in_time(self._admin.broker_view(broker_id, since=since, limit=_PAGE))
            if view is None:
                break
            if self._note(name, view.started_ms, view.next_since):
                continue
            steps += of_notes(broker_id, view.started_ms, view.notes)
            if len(view.notes) < _PAGE:
                break
        return steps

    def _since(self, name: str) -> int:
        return self._seen.get(name, (0, 0))[1]

    def _note(self, name: str, life: int, next_since: int) -> bool:
        """Whether the answer belongs to another life than was asked for, and has to be asked
        again from the beginning."""
        known = self._seen.get(name)
        if known is not None and known[0] != life:
            self._seen[name] = (life, 0)
            return True
        self._seen[name] = (life, next_since)
        return False


async def take_record(admin: Admin, now_ms: int) -> Record:
    watch = LifeWatch(admin)
    await watch.poll()
    return Record(FORMAT, 1, now_ms, watch.whole() or Life())


async def _in_time(asking: Any) -> Any:
    """A broker that was killed is tried for long; a page has to say so sooner."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await asking
    except TimeoutError:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "The controller does not answer. If its broker died, the others elect a new one as "
            "soon as its session in the store ends.",
        ) from None


def _head(view: ControllerView) -> Head:
    return Head(
        view.broker_id,
        view.epoch,
        view.elected_ms,
        [State(each.machine, each.state, each.count) for each in view.states],
        [
            Transition(each.machine, each.from_state, each.to_state, each.count)
            for each in view.transitions
        ],
        view.illegal_transitions,
        view.queue_length,
        [Waiting(each.name, each.waited_ms) for each in view.queue],
        view.in_hand,
        view.events_taken,
    )
