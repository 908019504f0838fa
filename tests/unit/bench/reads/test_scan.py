"""What a reader asks for, and what it looks at in the answer."""

from __future__ import annotations

import pytest

from ottla.bench.reads import scan
from ottla.errors import ErrorCode
from ottla.wire import messages as m
from ottla.wire.framing import decode_request_header, encode_response
from ottla.wire.records import Record, build_batch


def answer(records: bytes, error: ErrorCode = ErrorCode.NONE) -> memoryview:
    response = m.FetchResponse
    partition = response.PartitionData(
        partition_index=0, error_code=error, records=memoryview(records)
    )
    topic = response.FetchableTopicResponse(topic="t", partitions=[partition])
    whole = b"".join(encode_response(response(responses=[topic]), scan.FETCH_VERSION, 1))
    return memoryview(whole)[4:]


def test_the_next_offset_is_behind_the_last_whole_batch() -> None:
    one = build_batch([Record(None, b"x", 1)] * 3, base_offset=10)
    two = build_batch([Record(None, b"x", 1)] * 2, base_offset=13)
    assert scan.next_offset(answer(one + two)) == 15
    assert scan.next_offset(answer(one + two[:-1])) == 13
    assert scan.next_offset(answer(b"")) is None


def test_a_broker_that_says_no() -> None:
    with pytest.raises(scan.ScanFailed, match="OFFSET_OUT_OF_RANGE"):
        scan.next_offset(answer(b"", ErrorCode.OFFSET_OUT_OF_RANGE))


def test_a_request_names_offset_and_size() -> None:
    frame = memoryview(scan.fetch_frame("t", 77, 1000))[4:]
    _, position = decode_request_header(frame)
    request, _ = m.FetchRequest.decode(frame, scan.FETCH_VERSION, position)
    (partition,) = request.topics[0].partitions
    assert (request.max_bytes, partition.fetch_offset, partition.partition_max_bytes) == (
        1000,
        77,
        1000,
    )
