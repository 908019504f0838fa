from __future__ import annotations

import json

import pytest

from ottla.client.sender import ProducerIdentity
from ottla.pipelines.copy import state as states
from ottla.pipelines.copy.key_count import KeyCount
from ottla.pipelines.copy.order import OrderDigest
from ottla.pipelines.copy.parts import PairResult, RangeResult, Tally
from ottla.pipelines.copy.spans import Span
from ottla.pipelines.copy.state import BadState, Bounds, CopyState, Identity, UnderWay

IDENTITY = Identity("c", "t", "id", "c", "u", "id2", 5, "murmur2", "", "")


def a_state() -> CopyState:
    return CopyState(IDENTITY, {0: 3, 1: 0}, {0: 0}, {0: 3, 1: 0}, {0: ProducerIdentity(7, 0)})


def a_result(source: int, records: int) -> RangeResult:
    order = OrderDigest(records, 99)
    spans = [Span(0, records, 0, records - 1, records)]
    return RangeResult(
        source, Tally(records), KeyCount().registers(), {2: PairResult(order, spans)}
    )


def test_what_a_micro_batch_brought_is_added() -> None:
    state = a_state()
    state.absorb(UnderWay(1, {0: (3, 20), 1: (0, 9)}, {}), [a_result(0, 12), a_result(1, 9)])
    state.absorb(UnderWay(2, {0: (20, 30)}, {}), [a_result(0, 10)])
    assert state.positions == {0: 30, 1: 9}
    assert (state.batch, state.tally.records, state.records_in(2)) == (2, 31, 31)
    assert state.sequences(0) == {2: 22} and state.sequences(1) == {2: 9}
    assert len(state.spans()[0, 2]) == 2


def test_sequence_numbers_begin_again_after_the_largest() -> None:
    state = a_state()
    state.absorb(UnderWay(1, {0: (3, 4)}, {}), [a_result(0, (1 << 31) + 5)])
    assert state.sequences(0) == {2: 5}


def test_round_trip() -> None:
    state = a_state()
    state.absorb(UnderWay(1, {0: (3, 20)}, {}), [a_result(0, 12)])
    again = states.decode(states.encode(state))
    assert states.encode(again) == states.encode(state)
    assert again.pairs == state.pairs and again.producers == state.producers
    under_way = UnderWay(3, {0: (3, 20), 11: (0, 1)}, {0: 8})
    assert states.decode_under_way(states.encode_under_way(under_way)) == under_way


def test_bounds_are_kept() -> None:
    state = a_state()
    state.bounds = Bounds(1_000, None)
    assert states.decode(states.encode(state)).bounds == Bounds(1_000, None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not the checkpoint of a copy"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"version": 2}', "a later version of Ottla"),
        (b'{"version": 1}', "lacks what a copy needs"),
        (json.dumps({"version": 1, "identity": {}}).encode(), "lacks what a copy needs"),
    ],
)
def test_damage_is_told(data: bytes, why: str) -> None:
    for decode in (states.decode, states.decode_under_way, states.decode_finished):
        with pytest.raises(BadState, match=why):
            decode(data)


def test_whose_it_is() -> None:
    other = Identity("c", "t", "id", "c", "u", "id3", 6, "murmur2", "", "")
    assert IDENTITY.differences(other) == ["target id id3, not id2", "target partitions 6, not 5"]
    assert IDENTITY.differences(IDENTITY) == []
