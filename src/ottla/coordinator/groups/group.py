"""One consumer group: its members, protocols, generation and state (Kafka's GroupMetadata).

Pure: the clock is a port, a waiting caller is a callback, and what has to be written to
`__consumer_offsets` is left in `writes` for the coordinator to do. Every deadline is a number, and
`wake_at` is a lower bound of the earliest one, so that a heartbeat costs an addition and no timer.
The rules of the requests are in `rebalance.py`, the committed offsets in `offset_table.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import NamedTuple

from ottla.coordinator.groups.offset_table import OffsetTable
from ottla.coordinator.groups.records import (
    GroupMember,
    GroupValue,
    subscription_topics,
)
from ottla.coordinator.versioned import RecordFormatError
from ottla.errors import ErrorCode, InvariantViolated
from ottla.runtime import Clock
from ottla.types import TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
UNKNOWN_MEMBER_ID = ""


class GroupState(Enum):
    """The names are what DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


class GroupSettings(NamedTuple):
    """The broker configs `group.*` that the rules depend on."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1


class JoinedMember(NamedTuple):
    """One entry of the list that the leader gets to assign partitions."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinReply = Callable[[JoinResult], None]
SyncReply = Callable[[SyncResult], None]


class GroupWrite(NamedTuple):
    """The group's record is to be appended; `written` hears how that ended."""

    value: GroupValue
    written: Callable[[ErrorCode], None]


@dataclass(slots=True, eq=False, repr=False)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_reply: JoinReply | None = None
    sync_reply: SyncReply | None = None
    # True until the first generation: such a member cannot send heartbeats yet.
    is_new: bool = False
    deadline: float = inf

    @property
    def is_kept_alive(self) -> bool:
        """Waiting in JoinGroup or SyncGroup counts as alive, but for a brand-new member."""
        return not self.is_new and (self.join_reply is not None or self.sync_reply is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The member's first protocol among those that every member supports."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise InvariantViolated(f"member {self.member_id} supports none of {sorted(candidates)}")

    def wait_in_sync(self, reply: SyncReply) -> None:
        """An older call of the same member is told to try again: its client gave it up."""
        self.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self.sync_reply = reply

    def answer_sync(self, result: SyncResult) -> None:
        reply, self.sync_reply = self.sync_reply, None
        if reply is not None:
            reply(result)


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """The state of one group and the questions asked of it; changes keep `wake_at` and `writes`."""

    group_id: str
    clock: Clock
    settings: GroupSettings
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    # Wall clock, for the expiry of offsets; None for groups written by value version 0 or 1.
    state_timestamp_ms: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    # group.instance.id -> member id (KIP-345).
    static_members: dict[str, str] = field(default_factory=dict)
    # Ids handed out with MEMBER_ID_REQUIRED (KIP-394) and when they lapse.
    pending_members: dict[str, float] = field(default_factory=dict)
    # Members that have the new generation but did not send SyncGroup yet.
    pending_syncs: set[str] = field(default_factory=set)
    # None: not a consumer group, or a subscription could not be read.
    subscribed_topics: frozenset[str] | None = None
    offsets: OffsetTable = field(default_factory=OffsetTable)
    writes: list[GroupWrite] = field(default_factory=list)
    join_deadline: float = inf
    sync_deadline: float = inf
    # Milliseconds by which the first rebalance may still be prolonged; None outside of it.
    initial_delay_left_ms: int | None = None
    new_member_added: bool = False
    wake_at: float = inf
    # How many members wait in JoinGroup.
    waiting_in_join: int = 0
    _supporters: Counter[str] = field(default_factory=Counter)

    # --- state and time -------------------------------------------------------------------

    def transition(self, target: GroupState) -> None:
        if self.state not in VALID_PREVIOUS[target]:
            raise InvariantViolated(
                f"group {self.group_id} cannot go from {self.state.value} to {target.value}"
            )
        self.state = target
        self.state_timestamp_ms = self.clock.now_ms()

    def now(self) -> float:
        return self.clock.monotonic_ms()

    def wake(self, at_ms: float) -> float:
        """Notes that something falls due at `at_ms`, and hands it back."""
        self.wake_at = min(self.wake_at, at_ms)
        return at_ms

    def next_deadline(self) -> float:
        """The exact earliest deadline; `wake_at` may be earlier."""
        return min(
            self.join_deadline,
            self.sync_deadline,
            min(self.pending_members.values(), default=inf),
            min((member.deadline for member in self.members.values()), default=inf),
        )

    def keep_alive(self, member: Member) -> None:
        """A sign of life: the session starts again."""
        member.deadline = self.wake(self.now() + member.session_timeout_ms)

    # --- members --------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forgets a member; whoever still waits in its name is told to start again."""
        self.pending_members.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._supporters.subtract(name for name, _ in member.protocols)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    def wait_in_join(self, member: Member, reply: JoinReply) -> None:
        """An older call of the same member is told to try again: its client gave it up."""
        self.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join_reply = reply
        self.waiting_in_join += 1

    def answer_join(self, member: Member, result: JoinResult) -> None:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.waiting_in_join -= 1
            reply(result)

    def update_protocols(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self._supporters.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)

    def rename_static_member(self, instance_id: str, new_member_id: str) -> Member:
        """Puts a new member id in the place of the old one, whose waiting calls are fenced."""
        old_member_id = self.static_members[instance_id]
        member = self.members[old_member_id]
        self.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_member_id))
        member.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        # The order of members is kept: it decides who leads next.
        self.members = {
            (new_member_id if member_id == old_member_id else member_id): each
            for member_id, each in self.members.items()
        }
        member.member_id = new_member_id
        self.static_members[instance_id] = new_member_id
        if old_member_id in self.pending_syncs:
            self.pending_syncs.remove(old_member_id)
            self.pending_syncs.add(new_member_id)
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Another member id is registered for this instance id."""
        registered = None if instance_id is None else self.static_members.get(instance_id)
        return registered is not None and registered != member_id

    def all_members_joined(self) -> bool:
        return not self.pending_members and self.waiting_in_join == len(self.members)

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- protocols and generations ----------------------------------------------------------

    def supports(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Whether a member with these protocols fits in."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Most votes among the protocols that all members support."""
        everyone = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == everyone}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def start_generation(self) -> None:
        """The members that are left make the next generation."""
        self.generation_id += 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.transition(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY,
        )

    def _read_subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type is not None and not self.members:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol_name is None:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(subscription_topics(member.metadata(self.protocol_name)))
        except RecordFormatError:
            return None  # an assignor of the client's own: nothing is known
        return frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader is one who joined; False if nobody did."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    def member_list(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def join_result(self, member_id: str) -> JoinResult:
        """The current generation as JoinGroup answers it; only the leader sees the members."""
        return JoinResult(
            ErrorCode.NONE,
            member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.leader_id or "",
            self.member_list() if self.is_leader(member_id) else (),
        )

    def expired_offsets(self, retention_ms: int) -> list[TopicPartition]:
        """Which offsets are past their time depends on who could still want them (KIP-211)."""
        now_ms = self.clock.now_ms()
        if self.protocol_type is None:
            return self.offsets.expired(now_ms, retention_ms)
        if self.state is GroupState.EMPTY:
            return self.offsets.expired(
                now_ms, retention_ms, base_timestamp_ms=self.state_timestamp_ms
            )
        if self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return self.offsets.expired(now_ms, retention_ms, except_topics=self.subscribed_topics)
        return []

    # --- the stored form -----------------------------------------------------------------

    def to_value(self, assignments: dict[str, bytes]) -> GroupValue:
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.session_timeout_ms,
                    member.metadata(self.protocol_name),
                    assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def from_value(
        cls, group_id: str, value: GroupValue, clock: Clock, settings: GroupSettings
    ) -> Group:
        """A group as it was stored: Stable with its members, or Empty without."""
        group = cls(
            group_id,
            clock,
            settings,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            generation_id=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_timestamp_ms=value.state_timestamp_ms,
        )
        for stored in value.members:
            group.add(
                Member(
                    stored.member_id,
                    stored.instance_id,
                    stored.client_id,
                    stored.client_host,
                    stored.rebalance_timeout_ms,
                    stored.session_timeout_ms,
                    value.protocol_type,
                    ((value.protocol or "", stored.subscription),),
                    stored.assignment,
                )
            )
        group.subscribed_topics = group._read_subscriptions()
        return group
