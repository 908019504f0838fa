"""The bytes that members of many groups send, and what they look for in the answers.

Everything is encoded before the clock runs; of an answer only the few fields are read that the next
request needs.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.errors import ErrorCode, OttlaError
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.wire.framing import encode_request

# What Apache Kafka 4.1 and Ottla both understand; the newest without KIP-848's topic ids.
COMMIT_VERSION = 9
HEARTBEAT_VERSION = 4
# Not flexible: their answers are read by hand.
JOIN_VERSION = 5
SYNC_VERSION = 3
LEAVE_VERSION = 3
FIND_VERSION = 1
CLIENT_ID = "member"
# Every request has the same number: a connection has one under way.
CORRELATION_ID = 1
SESSION_TIMEOUT_MS = 300_000
_PROTOCOL = "range"
_ANSWER_HEAD_BYTES = 8  # length and correlation id
_THROTTLE_AND_ERROR = struct.Struct(">ih")
_JOIN_HEAD = struct.Struct(">ihi")


class GroupFailed(OttlaError):
    """The cluster refused what members of a group have to do."""


class Joined(NamedTuple):
    error: ErrorCode
    generation: int
    leader: str
    member_id: str
    # Those of the whole group, for its leader.
    members: list[str]


def frame(message: Message, version: int) -> bytes:
    return b"".join(encode_request(message, version, CORRELATION_ID, CLIENT_ID))


def join(group_id: str, topic: str, member_id: str = "") -> bytes:
    subscription = m.ConsumerProtocolSubscription(topics=[topic], user_data=None)
    request = m.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[
            m.JoinGroupRequest.JoinGroupRequestProtocol(
                name=_PROTOCOL, metadata=b"\0\0" + subscription.encode(0)
            )
        ],
    )
    return frame(request, JOIN_VERSION)


def read_join(answer: bytes) -> Joined:
    """Without its length, as a connection gives it."""
    position = _ANSWER_HEAD_BYTES
    _, error, generation = _JOIN_HEAD.unpack_from(answer, position)
    position += _JOIN_HEAD.size
    _, position = _string(answer, position)
    leader, position = _string(answer, position)
    member_id, position = _string(answer, position)
    count = int.from_bytes(answer[position : position + 4], "big")
    position += 4
    members = []
    for _ in range(count):
        name, position = _string(answer, position)
        _, position = _string(answer, position)
        position += 4 + int.from_bytes(answer[position : position + 4], "big")
        members.append(name)
    return Joined(ErrorCode(error), generation, leader, member_id, members)


def _string(data: bytes, position: int) -> tuple[str, int]:
    """Also a null one, which is empty then."""
    length = int.from_bytes(data[position : position + 2], "big", signed=True)
    start = position + 2
    end = start + max(length, 0)
    return data[start:end].decode(), end


def sync(group_id: str, generation: int, member_id: str, members: list[str]) -> bytes:
    """`members` are those whose assignments this one gives: all, or none."""
    entry = m.SyncGroupRequest.SyncGroupRequestAssignment
    request = m.SyncGroupRequest(
        group_id=group_id,
        generation_id=generation,
        member_id=member_id,
        assignments=[entry(member_id=each, assignment=each.encode()) for each in members],
    )
    return frame(request, SYNC_VERSION)


def read_error(answer: bytes) -> ErrorCode:
    """Of a FindCoordinator, SyncGroup or flexible Heartbeat answer."""
    return ErrorCode(_THROTTLE_AND_ERROR.unpack_from(answer, _ANSWER_HEAD_BYTES)[1])


def leave(group_id: str, members: list[str]) -> bytes:
    """All of them at once (KIP-345), so that none has to join again."""
    entry = m.LeaveGroupRequest.MemberIdentity
    request = m.LeaveGroupRequest(
        group_id=group_id, members=[entry(member_id=each) for each in members]
    )
    return frame(request, LEAVE_VERSION)


def commit(group_id: str, generation: int, member_id: str, topic: str, partition: int) -> bytes:
    topic_class = m.OffsetCommitRequest.OffsetCommitRequestTopic
    partition_class = m.OffsetCommitRequest.OffsetCommitRequestPartition
    request = m.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            topic_class(
                name=topic,
                partitions=[
                    partition_class(
                        partition_index=partition,
                        committed_offset=123_456_789,
                        committed_leader_epoch=0,
                        committed_metadata="",
                    )
                ],
            )
        ],
    )
    return frame(request, COMMIT_VERSION)


def find_coordinator(group_id: str) -> bytes:
    """Makes the topic of offsets where there is none yet."""
    return frame(m.FindCoordinatorRequest(key=group_id, key_type=0), FIND_VERSION)


def heartbeat(group_id: str, generation: int, member_id: str) -> bytes:
    request = m.HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return frame(request, HEARTBEAT_VERSION)


def answer(message: Message, version: int) -> bytes:
    """The whole answer as it has to come, to be compared byte by byte."""
    from ottla.wire.framing import encode_response

    return b"".join(encode_response(message, version, CORRELATION_ID))


def commit_answer(topic: str, partition: int) -> bytes:
    response = m.OffsetCommitResponse
    return answer(
        response(
            topics=[
                response.OffsetCommitResponseTopic(
                    name=topic,
                    partitions=[response.OffsetCommitResponsePartition(partition_index=partition)],
                )
            ]
        ),
        COMMIT_VERSION,
    )


def heartbeat_answer() -> bytes:
    return answer(m.HeartbeatResponse(), HEARTBEAT_VERSION)
