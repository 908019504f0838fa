"""Bounds on requests and answers."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.bounds.turns import Turns
from ottla.broker.context.request import CloseConnection
from ottla.broker.handlers import ROUTES_BY_KEY, load
from ottla.broker.requests import dispatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import TooLarge

DESCRIBE_GROUPS = 15


def _frame(message: Any, version: int) -> memoryview:
    return memoryview(b"".join(framing.encode_request(message, version, 7, "test"))[4:])


def _call(message: Any, version: int) -> dispatch.Call:
    return dispatch.read(_frame(message, version))


def _whole(encoding: Any) -> bytes:
    return b"".join(dispatch.encode_whole(encoding))


@pytest.mark.parametrize("count", [1, 100_000])
async def test_requests_of_any_size_are_read(count: int) -> None:
    groups = [f"g{number}" for number in range(count)]
    # No time at all: every pause that can be made is made.
    frame = _frame(m.DescribeGroupsRequest(groups=groups), 5)
    call = await dispatch.read_in_turns(frame, Turns(turn_s=0.0))
    assert call.request.groups == groups
    assert (call.correlation_id, call.answer_version) == (7, 5)


async def test_a_request_with_too_many_entries_ends_the_connection() -> None:
    frame = _frame(m.DescribeGroupsRequest(groups=["g"] * (dispatch.MAX_REQUEST_ENTRIES + 1)), 5)
    with pytest.raises(CloseConnection, match="more than 250000 entries"):
        await dispatch.read_in_turns(frame, Turns())


async def test_an_order_of_a_controller_may_have_more_entries() -> None:
    request = m.StopReplicaRequest
    partitions = [
        request.StopReplicaPartitionState(partition_index=number)
        for number in range(dispatch.MAX_REQUEST_ENTRIES + 1)
    ]
    topic = request.StopReplicaTopicState(topic_name="t", partition_states=partitions)
    frame = _frame(request(topic_states=[topic]), 3)
    call = await dispatch.read_in_turns(frame, Turns())
    assert len(call.request.topic_states[0].partition_states) == len(partitions)


@pytest.mark.parametrize("large", [b"", bytes(40_000)], ids=["small", "large"])
async def test_frames_that_are_no_request_end_the_connection(large: bytes) -> None:
    for start, text in (
        (b"\x03\xe7\0\0\0\0\0\1", "unknown API key 999"),
        (b"\0\x0f\0\x63\0\0\0\1", "DescribeGroups version 99 is not supported"),
    ):
        with pytest.raises(CloseConnection, match=text):
            await dispatch.read_in_turns(memoryview(start + large), Turns())


def test_an_answer_that_is_too_large_is_told_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MAX_ANSWER_BYTES", 1000)
    call = _call(m.DescribeGroupsRequest(groups=["g"]), 5)
    group = m.DescribeGroupsResponse.DescribedGroup(group_id="g" * 100)
    response = m.DescribeGroupsResponse(groups=[group] * 100)
    with pytest.raises(TooLarge) as caught:
        _whole(dispatch.encode_answer(call, response))
    error = dispatch.as_answered(caught.value)
    assert isinstance(error, KafkaError) and error.code is ErrorCode.INVALID_REQUEST
    assert str(error) == (
        "The answer would be too large, it has more than 1000 bytes: ask for less."
    )
    raw = _whole(dispatch.encode_failure(call, error))[4:]
    _, offset = framing.decode_response_header(raw, DESCRIBE_GROUPS, 5)
    answered, _ = m.DescribeGroupsResponse.decode(raw, 5, offset)
    assert [(g.group_id, g.error_code) for g in answered.groups] == [("g", 42)]


def test_an_error_form_that_is_too_large_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "MAX_ANSWER_BYTES", 1000)
    call = _call(m.DescribeGroupsRequest(groups=["g" * 100] * 100), 5)
    with pytest.raises(CloseConnection, match="and so did its error form"):
        _whole(dispatch.encode_failure(call, KafkaError(ErrorCode.NOT_COORDINATOR)))


def test_who_is_begun_at_once() -> None:
    assert load(ROUTES_BY_KEY[3]).route.eager
    assert dispatch.is_eager(_frame(m.MetadataRequest(topics=[]), 9))
    assert not dispatch.is_eager(_frame(m.CreateTopicsRequest(), 5))
    assert dispatch.is_eager(memoryview(b"\0"))  # refused at once
