"""What the coordinator answers, and what the log's errors mean to those who wait for it."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.groups.group import UNKNOWN_MEMBER_ID
from ottla.coordinator.groups.records import CommittedOffset
from ottla.errors import ErrorCode

_UNAVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
TOO_LARGE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_FETCH_SIZE,
)
# What the log's errors mean to a member (storeGroup) and to a committer (storeOffsets).
GROUP_WRITE_ERRORS: dict[ErrorCode, ErrorCode] = {
    **dict.fromkeys(_UNAVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(_MOVED, ErrorCode.NOT_COORDINATOR),
    **dict.fromkeys(TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}
OFFSET_WRITE_ERRORS: dict[ErrorCode, ErrorCode] = {
    **dict.fromkeys(_UNAVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    **dict.fromkeys(_MOVED, ErrorCode.NOT_COORDINATOR),
    **dict.fromkeys(TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
}


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class Committer(NamedTuple):
    """Who commits; the defaults are those of a consumer that assigns its partitions itself."""

    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None
    generation_id: int = -1


class FetchedOffset(NamedTuple):
    """`commit` None: nothing was committed, or `error` says why it cannot be told."""

    error: ErrorCode
    commit: CommittedOffset | None


class MemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    error: ErrorCode
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


class GroupListing(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
