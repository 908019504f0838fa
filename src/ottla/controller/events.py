"""What can happen to the controller. Events are values: equal ones waiting in the queue are one.

Watch events carry no data: whoever handles one reads the znodes again, so the znode stays the
source and the watch a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ottla.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.wire import messages as m


# A group, and its offsets by partition.
GroupOffsets = tuple[str, Mapping[int, int]]


class Subject(TypedDict, total=False):
    """What an event is about, as far as it carries that itself."""

    topic: str | None
    broker: int


class Event:
    """Base of all events."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return type(self).__name__

    def subject(self) -> Subject:
        return {}


@dataclass(frozen=True, slots=True)
class Startup(Event):
    """This broker came up: watch /controller and run for it."""


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """/controller is gone, or this broker has a new session."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """/controller was created or changed."""


@dataclass(frozen=True, slots=True)
class Expire(Event):
    """The session is over: whatever this controller was, it is no longer."""


@dataclass(frozen=True, slots=True)
class Failover(Event):
    """This broker won: read everything and finish what was left half done."""


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    pass


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    broker_id: int

    def subject(self) -> Subject:
        return {"broker": self.broker_id}


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    pass


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    topic: str

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    pass


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    pass


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    pass


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection(Event):
    """/admin/preferred_replica_election was created by an old tool."""


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(Event):
    """/admin/reassign_partitions was created by an old tool."""


@dataclass(frozen=True, slots=True)
class ReassignmentProgress(Event):
    """An ISR of a partition that is being moved has changed: it may be done."""


@dataclass(frozen=True, slots=True)
class AutoPreferredLeaderElection(Event):
    """Time to look whether leaders sit where they should."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnabled(Event):
    """unclean.leader.election.enable was turned on, for one topic or (None) for all."""

    topic: str | None = None

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Event):
    """What a broker answered to a request of the controller."""

    broker_id: int
    request: Any
    response: Any


@dataclass(frozen=True, slots=True, eq=False)
class LeaderAndIsrResponseReceived(Answer):
    request: m.LeaderAndIsrRequest
    response: m.LeaderAndIsrResponse


@dataclass(frozen=True, slots=True, eq=False)
class StopReplicaResponseReceived(Answer):
    request: m.StopReplicaRequest
    response: m.StopReplicaResponse


@dataclass(frozen=True, slots=True, eq=False)
class UpdateMetadataResponseReceived(Answer):
    request: m.UpdateMetadataRequest
    response: m.UpdateMetadataResponse


@dataclass(frozen=True, slots=True, eq=False)
class CarryOffsetsResponseReceived(Answer):
    request: m.CarryOffsetsRequest
    response: m.CarryOffsetsResponse


@dataclass(frozen=True, slots=True, eq=False)
class ResizeOrderResponseReceived(Answer):
    request: m.ResizeOrderRequest
    response: m.ResizeOrderResponse


@dataclass(frozen=True, slots=True, eq=False)
class ResizeEvent(Event):
    """Somebody wants a step of a resize (ADR 53)."""

    topic: str

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True, eq=False)
class BeginResize(ResizeEvent):
    """With `validate_only` it is only said whether it could be."""

    partitions: int
    replication_factor: int
    partitioner: str
    validate_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FenceResize(ResizeEvent):
    """`fence` is the one that is to go on standing, or -1 for a new one; `reply` hears when it
    stands. The topic may have to have this id."""

    topic_id: TopicId
    fence: int
    reply: Callable[[Any], None]


@dataclass(frozen=True, slots=True, eq=False)
class FinishResize(ResizeEvent):
    """The shadow has every record up to the fence; `groups` are to go on at these offsets of it.
    The topic may have to have had this id."""

    topic_id: TopicId
    shadow_id: TopicId
    fence: int
    groups: Sequence[GroupOffsets]
    guards_keys: bool
    reply: Callable[[Any], None]


@dataclass(frozen=True, slots=True, eq=False)
class AbortResize(ResizeEvent):
    pass


@dataclass(frozen=True, slots=True)
class ResizeTick(Event):
    """A second of a fence, or of a topic that is about to serve, is over."""

    topic_id: TopicId
    fence: int


@dataclass(frozen=True, slots=True, eq=False)
class RenameTopic(Event):
    """Another name for a topic, which may have to have this id; `reply` hears how it ended. With
    `validate_only` it is only said whether it could be."""

    topic: str
    new_name: str
    topic_id: TopicId
    reply: Callable[[Any], None]
    validate_only: bool = False

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True, eq=False)
class AlterIsr(Event):
    request: m.AlterPartitionRequest

    def subject(self) -> Subject:
        return {"broker": self.request.broker_id}


@dataclass(frozen=True, slots=True, eq=False)
class ControlledShutdown(Event):
    request: m.ControlledShutdownRequest

    def subject(self) -> Subject:
        return {"broker": self.request.broker_id}


@dataclass(frozen=True, slots=True, eq=False)
class ApiPartitionReassignment(Event):
    """The replicas that partitions are to have; None takes a move back."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True, eq=False)
class ListPartitionReassignments(Event):
    """The moves of these partitions, or (None) of all."""

    partitions: Collection[TopicPartition] | None


@dataclass(frozen=True, slots=True, eq=False)
class ElectLeaders(Event):
    partitions: Collection[TopicPartition]
    unclean: bool


@dataclass(frozen=True, slots=True, eq=False)
class UndeleteTopic(Event):
    """A topic is wanted back from the trash: of this id, or (None) the one that was deleted last;
    under this name, or (None) its own."""

    topic: str
    topic_id: TopicId | None
    new_name: str | None

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True, eq=False)
class PurgeDeletedTopic(Event):
    """A topic in the trash is to go now."""

    topic: str
    topic_id: TopicId | None

    def subject(self) -> Subject:
        return {"topic": self.topic}


@dataclass(frozen=True, slots=True)
class TrashExpiry(Event):
    """The time of something in the trash is over."""

    now_ms: int
