"""Three gaits of one walk: whatever the records, they come to the same end."""

from __future__ import annotations

import random

import pytest

from ottla.wire import records
from ottla.wire.record_walk import BadRecord, Flaw, RecordWalk
from ottla.wire.records import HEADER_BYTES, Record
from tests.support.peers.batch_lies import record, varint

_BASE_MS = 1_700_000_000_000


class _SlowWalk(RecordWalk):
    """Reads every record as Java does."""

    def _go_singly(self, most: int) -> int:
        self._read(self._position)
        return -1


def _end_of(kind: type[RecordWalk], plain: bytes, count: int, base: int, step: int) -> object:
    walk = kind(plain, count, base, base + 3, wants_oldest=True)
    try:
        while not walk.advance(step):
            pass
    except BadRecord as bad:
        return bad.flaw, bad.number, bad.left
    return walk.newest, walk.oldest, walk.is_in_order, walk.is_keyless


def _some_records(chance: random.Random, count: int) -> bytes:
    size = chance.choice([0, 5, 60, 63, 64, 70, 300, 8200 if count < 50 else 10])
    is_alike = chance.random() < 0.6
    key = chance.choice([None, b"", b"key", b"k" * 70])
    step = chance.choice([0, 1, 3, 3000, 10**5, 10**7, 10**10, 10**14])
    items = []
    for number in range(count):
        if not is_alike:
            key = chance.choice([None, b"k", b"k" * 70])
            size = chance.randrange(200)
        headers = [("h", b"1"), ("i", None)] if chance.random() < 0.02 else []
        time = _BASE_MS + number * step + chance.choice([0, 0, 1, -2])
        items.append(Record(key, chance.randbytes(size), time, headers))
    return records.build_batch(items)[HEADER_BYTES:]


@pytest.mark.parametrize("step_ms", [10**power for power in range(16)])
@pytest.mark.parametrize("count", [300, 3000])
def test_times_that_lie_far_apart(step_ms: int, count: int) -> None:
    """A day of records in one batch, or a thousand years: deltas of one byte to nine."""
    for sign in (1, -1):
        times = [_BASE_MS + sign * step_ms * number for number in range(count)]
        items = [Record(b"key", b"value", time_ms) for time_ms in times]
        plain = records.build_batch(items)[HEADER_BYTES:]
        found = _end_of(RecordWalk, plain, count, _BASE_MS, count)
        assert found == (max(times), min(times), True, False)


@pytest.mark.parametrize("seed", range(8))
def test_all_gaits_come_to_the_same_end(seed: int) -> None:
    chance = random.Random(seed)
    ends = set()
    for _ in range(60):
        count = chance.choice([1, 3, 20, 70, 200])
        plain = bytearray(_some_records(chance, count))
        for _ in range(chance.choice([0, 0, 1, 2])):
            plain[chance.randrange(len(plain))] = chance.choice([0, 1, 2, 127, 128, 255])
        claimed = max(1, count + chance.choice([0, 0, 0, 1, -1]))
        base = chance.choice([_BASE_MS] * 5 + [2**63 - 1, -(2**63)])
        step = chance.choice([1, 7, 100_000])
        found = _end_of(RecordWalk, bytes(plain), claimed, base, step)
        assert found == _end_of(_SlowWalk, bytes(plain), claimed, base, 1 << 40)
        ends.add(isinstance(found, tuple) and isinstance(found[0], Flaw))
    assert ends == {True, False}


@pytest.mark.parametrize("value_bytes", [0, 30, 100])
def test_what_it_finds_is_what_the_records_are(value_bytes: int) -> None:
    items = [Record(b"k", bytes(value_bytes), _BASE_MS + n * 7 % 90) for n in range(9000)]
    batch = records.build_batch(items)
    header = records.read_header(batch)
    walk = RecordWalk(batch[HEADER_BYTES:], 9000, header.base_timestamp, 0, wants_oldest=True)
    walk.go()
    assert (walk.newest, walk.oldest) == (header.max_timestamp, _BASE_MS)
    assert walk.is_in_order and not walk.is_keyless


@pytest.mark.parametrize(
    ("plain", "count", "flaw", "number"),
    [
        (b"", 1, Flaw.NO_SIZE, 0),
        (record(0) + b"\x80", 2, Flaw.NO_SIZE, 1),
        (b"\x80" * 6, 1, Flaw.SIZE_TOO_LONG, 0),
        (record(0, size=-1), 1, Flaw.SIZE_NEGATIVE, 0),
        (record(0) + record(1, size=50), 2, Flaw.PAST_END, 1),
        (record(0, size=7), 1, Flaw.STRUCTURE, 0),
        (record(0, headers=varint(-1)), 1, Flaw.STRUCTURE, 0),
        (record(0, headers=varint(40) + b"\x00" * 79), 1, Flaw.STRUCTURE, 0),
        (record(0, headers=varint(40) + b"\x00" * 81), 1, Flaw.STRUCTURE, 0),
        (record(0, headers=varint(40) + b"\x01" * 80), 1, Flaw.STRUCTURE, 0),
        (record(0) + record(1), 1, Flaw.LEFT_OVER, 0),
    ],
)
def test_flaws(plain: bytes, count: int, flaw: Flaw, number: int) -> None:
    with pytest.raises(BadRecord, match=f"record {number} is malformed: ") as raised:
        RecordWalk(plain, count).go()
    assert (raised.value.flaw, raised.value.number) == (flaw, number)


def test_no_part_is_longer_than_was_asked_for() -> None:
    """Half a million headers in one record, and as many records of two sizes."""
    headers = RecordWalk(record(0, headers=varint(500_000) + bytes(1_000_000)), 1)
    several = b"".join(record(n, value=b"v" * (n % 2)) for n in range(5000))
    for walk in (headers, RecordWalk(several, 5000)):
        parts = 1
        while not walk.advance(1000):
            parts += 1
        assert parts >= 5
    assert parts <= 10
