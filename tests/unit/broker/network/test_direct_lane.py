"""The Produce requests that lie whole in what was read."""

from __future__ import annotations

import pytest

from ottla.broker.network.direct_lane import whole_produce_frames

PRODUCE = b"\x00\x00" + b"p" * 10
FETCH = b"\x00\x01" + b"f" * 10


def framed(*requests: bytes) -> memoryview:
    return memoryview(b"".join(len(each).to_bytes(4, "big") + each for each in requests))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (framed(PRODUCE, PRODUCE), 2),
        (framed(PRODUCE, FETCH, PRODUCE), 1),
        (framed(FETCH, PRODUCE), 0),
        (framed(PRODUCE, PRODUCE)[:-1], 1),
        (framed(PRODUCE)[:5], 0),
        (framed(PRODUCE, PRODUCE + b"p"), 1),
        (memoryview(b"\xff\xff\xff\xff" + PRODUCE), 0),
        (memoryview(b""), 0),
    ],
)
def test_only_whole_ones_of_a_fit_size_from_the_first_on(data: memoryview, found: int) -> None:
    frames = whole_produce_frames(data, 0, max_bytes=len(PRODUCE), most=10)
    assert [bytes(frame) for frame in frames] == [PRODUCE] * found


def test_from_a_position_on_and_no_more_than_wanted() -> None:
    data = framed(FETCH, PRODUCE, PRODUCE, PRODUCE)
    frames = whole_produce_frames(data, 4 + len(FETCH), max_bytes=100, most=2)
    assert [bytes(frame) for frame in frames] == [PRODUCE] * 2
    assert all(frame.obj is data.obj for frame in frames), "no copies"
    assert whole_produce_frames(data, 4 + len(FETCH), max_bytes=100, most=0) == []
