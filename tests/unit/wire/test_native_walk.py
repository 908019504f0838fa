"""The native walk comes to the end of the other one, whatever the records are."""

from __future__ import annotations

import mmap
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import records
from ottla.wire.native_walk import walk_over
from ottla.wire.record_walk import BadRecord, Flaw, RecordWalk
from ottla.wire.records import HEADER_BYTES, Record
from tests.support.native import FORMS, in_force, native_code
from tests.support.peers.batch_lies import record, varint

_BASE_MS = 1_700_000_000_000
_TELLING = [0, 1, 2, 3, 126, 127, 128, 129, 254, 255]


def _end_of(walk: Any, step: int) -> tuple[Any, ...]:
    try:
        while not walk.advance(step):
            pass
    except BadRecord as bad:
        return bad.flaw, bad.number, bad.left, str(bad)
    return walk.newest, walk.oldest, walk.is_in_order, walk.is_keyless


def _ends(plain: bytes, count: int, base: int, step: int) -> tuple[tuple[Any, ...], ...]:
    """Of the oracle and of native code."""
    with in_force("native"):
        ours = walk_over(plain, count, base)
    assert not isinstance(ours, RecordWalk)
    oracle = RecordWalk(plain, count, base, base, wants_oldest=True)
    return _end_of(oracle, 1 << 40), _end_of(ours, step)


_times = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(_BASE_MS, _BASE_MS + 100))
_header = st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3)))
_bytes = st.one_of(st.none(), st.binary(max_size=20), st.just(b"v" * 9000))


@settings(max_examples=80)
@given(
    st.lists(st.builds(Record, _bytes, _bytes, _times, st.lists(_header, max_size=3)), min_size=1),
    st.sampled_from([1, 2, 1000]),
)
def test_records_that_are_right(items: list[Record], step: int) -> None:
    native_code()
    plain = b"".join(
        record(
            number,
            key=item.key,
            value=item.value,
            time=item.timestamp,
            headers=varint(len(item.headers))
            + b"".join(
                varint(len(name.encode()))
                + name.encode()
                + (varint(-1) if value is None else varint(len(value)) + value)
                for name, value in item.headers
            ),
        )
        for number, item in enumerate(items)
    )
    for base in (0, 2**63 - 1, -(2**63)):
        oracle, ours = _ends(plain, len(items), base, step)
        assert ours == oracle
        assert not isinstance(oracle[0], Flaw)


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(-2, 70), st.sampled_from([1, 7, 1000]))
def test_any_bytes(plain: bytes, count: int, step: int) -> None:
    native_code()
    oracle, ours = _ends(plain, count, 0, step)
    assert ours == oracle


@pytest.mark.parametrize("seed", range(2))
def test_damaged_records(seed: int) -> None:
    """Every flaw is met, and records that look wrong and are not."""
    native_code()
    chance = random.Random(seed)
    met = set()
    for _ in range(1500):
        count = chance.choice([1, 3, 20])
        items = [
            Record(
                chance.choice([None, b"", b"k" * chance.randrange(80)]),
                chance.choice([None, b"v" * chance.randrange(300)]),
                _BASE_MS + chance.choice([0, 1, -5, 10**6, 10**12]),
                [("h", b"1"), ("i", None)] if chance.random() < 0.1 else [],
            )
            for _ in range(count)
        ]
        plain = bytearray(records.build_batch(items)[HEADER_BYTES:])
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            plain[chance.randrange(len(plain))] = chance.choice(_TELLING)
        if chance.random() < 0.2:
            del plain[chance.randrange(len(plain)) :]
        claimed = count + chance.choice([0, 0, 0, 1, -1])
        base = chance.choice([_BASE_MS] * 5 + [2**63 - 1, -(2**63)])
        oracle, ours = _ends(bytes(plain), claimed, base, chance.choice([1, 7, 100_000]))
        assert ours == oracle
        met.add(oracle[0] if isinstance(oracle[0], Flaw) else None)
    assert met >= {None, Flaw.NO_SIZE, Flaw.PAST_END, Flaw.STRUCTURE, Flaw.LEFT_OVER}


@pytest.mark.parametrize("form", FORMS)
def test_no_part_is_longer_than_was_asked_for(form: str) -> None:
    """Half a million headers in one record."""
    with in_force(form):
        walk = walk_over(record(0, headers=varint(500_000) + bytes(1_000_000)), 1)
        parts = 1
        while not walk.advance(1000):
            parts += 1
    assert parts >= 500


@pytest.mark.parametrize("form", FORMS)
def test_records_that_were_unpacked_into_pages(form: str) -> None:
    """What unpacks to megabytes is an mmap; it is not kept from being closed."""
    plain = b"".join(record(number) for number in range(100))
    pages = mmap.mmap(-1, len(plain))
    pages[:] = plain
    with in_force(form):
        walk = walk_over(pages, 100, _BASE_MS)
        while not walk.advance(7):
            pass
    assert (walk.newest, walk.is_in_order, walk.is_keyless) == (_BASE_MS, True, False)
    pages.close()


def test_records_that_change_their_length_meanwhile() -> None:
    growing = bytearray(record(0) + record(1))
    walk = native_code().RecordWalk(growing, 2, 0)
    assert walk.advance(1) == 0
    growing += b"\x00"
    with pytest.raises(ValueError, match="changed during a walk"):
        walk.advance(1)


def test_a_walk_that_met_a_flaw_stays_there() -> None:
    walk = native_code().RecordWalk(b"\x80" * 6, 1, 0)
    assert (walk.advance(5), walk.advance(5)) == (-1, -1)
    assert walk.bad == (Flaw.SIZE_TOO_LONG.value, 0, 6)
