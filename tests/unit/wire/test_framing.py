"""Frames and headers."""

from __future__ import annotations

import random
import struct

import pytest

from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import UnsupportedVersion, WireError


def _request(version: int, client_id: str | None = "me") -> bytes:
    return b"".join(framing.encode_request(m.MetadataRequest(), version, 7, client_id))


@pytest.mark.parametrize("version", [0, 8, 9, 12])
@pytest.mark.parametrize("client_id", ["me", "", None, "ü" * 200])
def test_request_round_trip(version: int, client_id: str | None) -> None:
    frame = _request(version, client_id)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    header, offset = framing.decode_request_header(memoryview(frame)[4:])
    assert header == framing.RequestHeader(3, version, 7, client_id)
    message, end = m.MetadataRequest.decode(frame, version, 4 + offset)
    assert message == m.MetadataRequest() and end == len(frame)


def test_known_request_bytes() -> None:
    chunks = framing.encode_request(m.ApiVersionsRequest(), 3, 1, "c")
    assert (
        b"".join(chunks).hex()
        == "0000000f" + "00120003" + "00000001" + "000163" + "00" + "01" + "01" + "00"
    )


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    request = m.ControlledShutdownRequest(broker_id=5)
    frame = b"".join(framing.encode_request(request, 0, 9, "ignored"))
    assert frame.hex() == "0000000c" + "00070000" + "00000009" + "00000005"
    assert framing.decode_request_header(frame[4:]) == (framing.RequestHeader(7, 0, 9, None), 8)
    assert framing.decode_request_header(_shutdown_v1())[0].client_id == "b"


def _shutdown_v1() -> bytes:
    return b"".join(framing.encode_request(m.ControlledShutdownRequest(), 1, 9, "b"))[4:]


def test_api_versions_response_header_is_never_flexible() -> None:
    frame = b"".join(framing.encode_response(m.ApiVersionsResponse(error_code=35), 3, 1))
    assert frame[4:8].hex() == "00000001" and frame[8:10].hex() == "0023"
    assert framing.decode_response_header(frame[4:], 18, 3) == (1, 4)


@pytest.mark.parametrize(("version", "offset"), [(8, 4), (9, 5)])
def test_response_round_trip(version: int, offset: int) -> None:
    frame = b"".join(framing.encode_response(m.MetadataResponse(), version, -3))
    assert framing.decode_response_header(frame[4:], 3, version) == (-3, offset)
    assert m.MetadataResponse.decode(frame, version, 4 + offset)[1] == len(frame)


def test_a_header_of_an_unknown_version_is_still_read() -> None:
    # The broker answers an ApiVersions request of the future; it must read its header first.
    raw = struct.pack(">hhih", 18, 99, 4, 1) + b"x" + b"\x00"
    assert framing.decode_request_header(raw) == (framing.RequestHeader(18, 99, 4, "x"), len(raw))


def test_headers_that_are_none() -> None:
    with pytest.raises(UnsupportedVersion):
        framing.decode_request_header(struct.pack(">hhih", 999, 0, 4, -1))
    with pytest.raises(WireError):
        framing.decode_request_header(struct.pack(">hhih", 3, 0, 4, 5) + b"abc")
    with pytest.raises(WireError):
        framing.decode_request_header(struct.pack(">hhih", 3, 0, 4, -2))
    with pytest.raises(WireError):
        framing.decode_request_header(struct.pack(">hhih", 3, 0, 4, 2) + b"\xff\xfe")
    with pytest.raises(WireError):
        framing.decode_response_header(b"\x00", 3, 9)


def test_a_client_id_that_is_too_long() -> None:
    with pytest.raises(WireError):
        _request(9, "x" * 40000)


def test_length_covers_uncopied_records() -> None:
    partition = m.FetchResponse.PartitionData(records=b"r" * 5000)
    topic = m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition] * 2)
    chunks = framing.encode_response(m.FetchResponse(responses=[topic]), 12, 1)
    assert len(chunks) > 3
    frame = b"".join(chunks)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)


def _stream(seed: int) -> tuple[list[bytes], bytes]:
    source = random.Random(seed)
    payloads = [source.randbytes(source.choice([0, 1, 3, 50, 3000])) for _ in range(40)]
    return payloads, b"".join(struct.pack(">i", len(p)) + p for p in payloads)


@pytest.mark.parametrize("seed", range(5))
def test_frames_come_out_however_the_stream_is_cut(seed: int) -> None:
    payloads, stream = _stream(seed)
    source = random.Random(seed)
    reader = framing.FrameReader(3000)
    frames: list[memoryview] = []
    position = 0
    while position < len(stream):
        size = source.choice([1, 2, 5, 100, 4000])
        frames += reader.feed(stream[position : position + size])
        position += size
    assert [bytes(frame) for frame in frames] == payloads
    assert len(reader.partial) == 0


def test_frames_are_writable_and_separate() -> None:
    reader = framing.FrameReader(100)
    one, two = reader.feed(struct.pack(">i", 3) + b"abc" + struct.pack(">i", 3) + b"def")
    one[0] = 0
    assert bytes(two) == b"def" and not one.readonly
    assert reader.feed(struct.pack(">i", 3) + b"g") == []
    (three,) = reader.feed(b"hi")
    three[2] = 0
    assert bytes(three) == b"gh\x00"


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x80\x00\x00\x00", "-2147483648 bytes"),
        (struct.pack(">i", 1001), "1001 bytes"),
        (b"GET / HTTP/1.1", "looks like HTTP"),
        (b"\x16\x03\x01\x02\x00", "looks like TLS"),
    ],
)
@pytest.mark.parametrize("cut", [1, 4])
def test_bad_lengths_are_refused_before_anything_is_kept(
    start: bytes, reason: str, cut: int
) -> None:
    reader = framing.FrameReader(1000)
    with pytest.raises(framing.FrameTooLarge, match=reason):
        reader.feed(start[:cut])
        reader.feed(start[cut:])


def test_a_length_alone_allocates_nothing() -> None:
    reader = framing.FrameReader(1 << 30)
    assert reader.feed(struct.pack(">i", 1 << 30)) == []
    assert len(reader.partial) == 4
