"""What native code says of a batch in one go is what pure Python finds step by step."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.append.inner import holds_quickly
from ottla.wire import records
from ottla.wire.records import HEADER, Record
from tests.support.native import in_force, native_code
from tests.support.peers.batch_lies import all_lies

BATCH = records.build_batch(
    [Record(b"key" if n % 2 else None, b"v" * n, 1_700_000_000_000 + n) for n in range(40)],
    producer_id=7,
    producer_epoch=1,
    base_sequence=0,
)


def in_steps(batch: bytes) -> tuple[int, int, int, int] | None:
    """Of the batch that most producers send; None for any other."""
    if len(batch) < HEADER.size:
        return None
    fields = HEADER.unpack_from(batch)
    base, length, _, magic, crc, attributes, delta, _, newest, producer, _, _, count = fields
    is_usual = (
        (base, length, magic, attributes) == (0, len(batch) - 12, 2, 0)
        and 0 < count == delta + 1
        and newest >= 0
    )
    with in_force("python"):
        if is_usual and holds_quickly(memoryview(batch), fields, 1 << 30):
            return crc, count, newest, producer
    return None


def in_one_go(batch: bytes) -> object:
    return native_code().usual_batch(memoryview(batch), True, 1 << 30)


def test_a_batch_as_producers_send_it() -> None:
    found = in_one_go(bytes(BATCH))
    assert found == in_steps(bytes(BATCH))
    assert found is not None


def test_every_lie() -> None:
    lies = [bytes(lie.batch) for lie in all_lies()]
    found = [in_one_go(lie) for lie in lies]
    assert found == [in_steps(lie) for lie in lies]


@pytest.mark.parametrize("size", [0, 1, 60, 61, 62, len(BATCH) - 1])
def test_cut_short(size: int) -> None:
    assert in_one_go(bytes(BATCH)[:size]) is None


def test_every_bit_of_the_header() -> None:
    for place in range(HEADER.size):
        for bit in range(8):
            damaged = bytearray(BATCH)
            damaged[place] ^= 1 << bit
            assert in_one_go(bytes(damaged)) == in_steps(bytes(damaged))


def test_numbers_at_their_limits() -> None:
    for form, place in ((">i", 8), (">i", 23), (">q", 27), (">q", 35), (">i", 57), (">q", 43)):
        bits = 8 * struct.calcsize(form) - 1
        for value in (-(1 << bits), -1, 0, 1, (1 << bits) - 1):
            changed = bytearray(BATCH)
            struct.pack_into(form, changed, place, value)
            assert in_one_go(bytes(changed)) == in_steps(bytes(changed))


@settings(deadline=None)
@given(st.integers(0, 1 << 32))
def test_damage_anywhere(seed: int) -> None:
    chance = random.Random(seed)
    damaged = bytearray(BATCH)
    for _ in range(chance.randint(1, 3)):
        damaged[chance.randrange(HEADER.size, len(damaged))] = chance.randrange(256)
    assert in_one_go(bytes(damaged)) == in_steps(bytes(damaged))


def test_records_that_nobody_asks_for_are_not_looked_at() -> None:
    damaged = bytes(BATCH)[:-1] + b"\x7f"
    code = native_code()
    assert code.usual_batch(damaged, True, 1 << 30) is None
    assert code.usual_batch(damaged, False, 1 << 30) is not None
    assert code.usual_batch(bytes(BATCH), True, 39) is None, "not known after so many"
