"""Messages read and written in turns: the same bytes, with bounds."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from ottla.wire import messages as m
from ottla.wire.codec import Message, TooLarge, WireError

_Result = TypeVar("_Result")
NO_LIMIT = 2**31


def _run(work: Generator[object, None, _Result]) -> tuple[_Result, int]:
    """The result, and how often the work could have been left."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value, pauses
        pauses += 1


def _encode(message: Message, version: int, max_bytes: int = NO_LIMIT) -> tuple[bytes, int]:
    chunks: list[Any] = []
    last, pauses = _run(message.encode_in_turns(version, bytearray(), chunks, max_bytes))
    return b"".join([*chunks, last]), pauses


def _decode(
    kind: type[Message], raw: bytes, version: int, limit: int = NO_LIMIT
) -> tuple[Any, int]:
    (message, end), pauses = _run(kind.decode_in_turns(raw, version, 0, limit))
    assert end == len(raw)
    return message, pauses


def test_every_version_of_every_api_has_the_same_bytes() -> None:
    checked = 0
    for name in m.api_names().values():
        for kind in (getattr(m, f"{name}Request"), getattr(m, f"{name}Response")):
            first, last = kind.SCHEMA.versions
            for version in range(first, last + 1):
                raw = kind().encode(version)
                assert _encode(kind(), version) == (raw, 0)
                assert _decode(kind, raw, version) == (kind(), 0)
                checked += 1
    assert checked > 600


def _metadata(topics: int, partitions: int) -> m.MetadataResponse:
    response = m.MetadataResponse
    return response(
        topics=[
            response.MetadataResponseTopic(
                name=f"topic-{number}",
                partitions=[
                    response.MetadataResponsePartition(
                        partition_index=index, replica_nodes=[1, 2, 3], isr_nodes=[1]
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ]
    )


@pytest.mark.parametrize("version", [1, 12])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1000), (1000, 1), (70, 70)])
def test_large_messages_can_be_left_now_and_then(
    version: int, topics: int, partitions: int
) -> None:
    response = _metadata(topics, partitions)
    raw = response.encode(version)
    encoded, pauses = _encode(response, version)
    assert encoded == raw
    assert pauses >= 10
    decoded, pauses = _decode(m.MetadataResponse, raw, version)
    assert decoded.encode(version) == raw
    assert pauses >= 10


def test_messages_with_records_keep_them_uncopied() -> None:
    request = m.ProduceRequest
    records = bytes(5000)
    sent = request(
        acks=1,
        topic_data=[
            request.TopicProduceData(
                name="t", partition_data=[request.PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    raw = sent.encode(9)
    assert _encode(sent, 9) == (raw, 0)
    frame = bytearray(raw)
    decoded, _ = _decode(request, frame, 9)
    view = decoded.topic_data[0].partition_data[0].records
    view[0] = 7
    assert b"\x07" in frame


def test_more_entries_than_allowed_are_refused_before_they_are_made() -> None:
    raw = m.DescribeGroupsRequest(groups=["g"] * 1000).encode(5)
    assert _decode(m.DescribeGroupsRequest, raw, 5, 1000)[0].groups == ["g"] * 1000
    with pytest.raises(TooLarge, match="more than 999 entries"):
        _decode(m.DescribeGroupsRequest, raw, 5, 999)


def test_entries_of_all_arrays_count_together_numbers_as_well() -> None:
    request = m.OffsetFetchRequest
    raw = request(
        group_id="g",
        topics=[
            request.OffsetFetchRequestTopic(name="t", partition_indexes=list(range(100)))
            for _ in range(10)
        ],
    ).encode(7)
    # Ten topics, and twelve times eight numbers in each.
    _decode(request, raw, 7, 130)
    with pytest.raises(TooLarge):
        _decode(request, raw, 7, 129)


def test_an_answer_beyond_its_bound_is_given_up() -> None:
    response = _metadata(1, 1000)
    size = len(response.encode(12))
    _encode(response, 12, size)
    with pytest.raises(TooLarge, match="more than 1000 bytes"):
        _encode(response, 12, 1000)


def test_an_error_message_is_cut_where_a_string_ends() -> None:
    for version in (1, 3):  # both forms of strings
        response = m.DescribeAclsResponse(error_message="é" * 20_000)
        raw = response.encode(version)
        decoded, _ = m.DescribeAclsResponse.decode(raw, version)
        assert decoded.error_message == "é" * (0x7FFF // 2)


def test_bad_bytes_and_bad_values_are_wire_errors() -> None:
    raw = m.DescribeGroupsRequest(groups=["g"] * 100).encode(5)
    with pytest.raises(WireError):
        _decode(m.DescribeGroupsRequest, raw[:50], 5)
    with pytest.raises(WireError):
        _encode(m.DescribeGroupsRequest(groups=[None]), 5)  # type: ignore[list-item]
    with pytest.raises(WireError):
        _encode(m.DescribeGroupsRequest(), 99)
