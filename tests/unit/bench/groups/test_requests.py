"""The bytes of a member: what our own codec reads of them, and what is read of the answers."""

from __future__ import annotations

import pytest

from ottla.bench.groups import requests
from ottla.errors import ErrorCode
from ottla.wire import messages as m
from ottla.wire.framing import decode_request_header


def test_an_answer_to_join_group_is_read_by_hand() -> None:
    entry = m.JoinGroupResponse.JoinGroupResponseMember
    answer = m.JoinGroupResponse(
        generation_id=3,
        protocol_name="range",
        leader="a",
        member_id="b",
        members=[
            entry(member_id="a", metadata=b"12345"),
            entry(member_id="b", group_instance_id="static", metadata=b""),
        ],
    )
    found = requests.read_join(requests.answer(answer, requests.JOIN_VERSION))
    assert found == (ErrorCode.NONE, 3, "a", "b", ["a", "b"])


def test_errors_of_other_answers() -> None:
    answer = m.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    found = requests.read_error(requests.answer(answer, requests.SYNC_VERSION))
    assert found is ErrorCode.REBALANCE_IN_PROGRESS
    beat = m.HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    found = requests.read_error(requests.answer(beat, requests.HEARTBEAT_VERSION)[1:])
    assert found is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("data", "kind", "version"),
    [
        (requests.join("g", "t"), m.JoinGroupRequest, requests.JOIN_VERSION),
        (requests.sync("g", 1, "m", ["m", "n"]), m.SyncGroupRequest, requests.SYNC_VERSION),
        (requests.leave("g", ["m"]), m.LeaveGroupRequest, requests.LEAVE_VERSION),
        (requests.commit("g", 1, "m", "t", 4), m.OffsetCommitRequest, requests.COMMIT_VERSION),
        (requests.heartbeat("g", 1, "m"), m.HeartbeatRequest, requests.HEARTBEAT_VERSION),
    ],
)
def test_requests_are_whole(data: bytes, kind: type, version: int) -> None:
    frame = memoryview(data)[4:]
    assert int.from_bytes(data[:4], "big") == len(frame)
    header, position = decode_request_header(frame)
    request, end = kind.decode(frame, version, position)  # type: ignore[attr-defined]
    assert (header.api_key, header.api_version, end) == (kind.API_KEY, version, len(frame))  # type: ignore[attr-defined]
    assert request.group_id == "g"
