"""What a decision may ask the world to do.

A decision is a plain generator: it yields steps, is handed each step's result, and absorbs it into
the context before it goes on. It never awaits, so it runs the same under a test that answers by
hand and under the interpreter that talks to the store. `yield from` the helpers below: they give
the results their types.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from ottla.controller.events import Event
from ottla.metadata.store import NodeExistsError, NoNodeError, Op, OpResult, Stat, StoreError
from ottla.metadata.znodes import BrokerInfo
from ottla.wire.codec import Message

T = TypeVar("T")


class Read(NamedTuple):
    """A znode to read; `watch` is queued when its data changes."""

    path: str
    watch: Event | None = None


# A third faster than Read(path): a failover reads tens of thousands of nodes.
_as_read: Callable[[type[Read], tuple[str, None]], Read] = tuple.__new__


class Node(NamedTuple):
    data: bytes | None
    stat: Stat


class ControlRequest(NamedTuple):
    """A request for one broker."""

    broker_id: int
    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class GetNodes:
    """Reads many znodes in one pipelined round. Result: Node, or None where there is none."""

    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class GetChildren:
    """Lists children of many paths, sorted. A missing path has none."""

    paths: Sequence[str]
    watch: Event | None = None


@dataclass(frozen=True, slots=True)
class CheckExists:
    """Whether the path is there; `watch` is queued when it is created."""

    path: str
    watch: Event | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """Independent writes, each fenced by the controller epoch, many to a multi."""

    ops: Sequence[Op]
    fenced: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Requests for brokers, queued in this order."""

    requests: Sequence[ControlRequest]


@dataclass(frozen=True, slots=True)
class OpenChannels:
    brokers: Sequence[BrokerInfo]


@dataclass(frozen=True, slots=True)
class CloseChannels:
    broker_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Post:
    """A follow-up event, put at the end of the queue."""

    event: Event


@dataclass(frozen=True, slots=True)
class WriteTogether:
    """All of these or none, in one multi, fenced. Result: whether they are in the store."""

    ops: Sequence[Op]


@dataclass(frozen=True, slots=True)
class PostLater:
    """An event that is put into the queue after a while, if this controller still reigns."""

    event: Event
    delay_s: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Tells somebody who waits outside of the queue."""

    reply: Callable[[Any], None]
    value: Any


Step = (
    WriteTogether
    | Tell
    | GetNodes
    | GetChildren
    | CheckExists
    | Write
    | Send
    | OpenChannels
    | CloseChannels
    | Post
    | PostLater
)
Steps = Generator[Step, Any, T]


def get_nodes(reads: Sequence[Read]) -> Steps[list[Node | None]]:
    if not reads:
        return []
    return cast("list[Node | None]", (yield GetNodes(reads)))


def get_paths(paths: Sequence[str]) -> Steps[list[Node | None]]:
    return (yield from get_nodes([_as_read(Read, (path, None)) for path in paths]))


def get_children(path: str, watch: Event | None = None) -> Steps[list[str]]:
    return cast("list[list[str]]", (yield GetChildren([path], watch)))[0]


def get_children_of(paths: Sequence[str]) -> Steps[list[list[str]]]:
    if not paths:
        return []
    return cast("list[list[str]]", (yield GetChildren(paths)))


def check_exists(path: str, watch: Event) -> Steps[bool]:
    return cast("bool", (yield CheckExists(path, watch)))


def write(ops: Sequence[Op], *, fenced: bool = True) -> Steps[list[OpResult]]:
    if not ops:
        return []
    return cast("list[OpResult]", (yield Write(ops, fenced)))


def write_together(ops: Sequence[Op]) -> Steps[bool]:
    return cast("bool", (yield WriteTogether(ops)))


def failed(result: OpResult, *tolerated: type[StoreError]) -> bool:
    return result.error is not None and not isinstance(result.error, tolerated)


def sure(ops: Sequence[Op]) -> Steps[None]:
    """Writes that may have been done before, by this controller or another. There is no way back:
    a controller that cannot do them resigns, and the next one tries again."""
    for result in (yield from write(ops)):
        if result.error is not None and failed(result, NodeExistsError, NoNodeError):
            raise result.error
