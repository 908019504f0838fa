"""Pages of records, in order, in bounds, each record once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.console.records import walk
from ottla.wire.records import Record
from tests.support.console.logs import MemoryLogs, batch

BUDGET = 1 << 20


def make_terms(most: int, **options: Any) -> walk.Terms:
    size = options.pop("bytes", BUDGET)
    now_s = options.pop("now_s", lambda: 0.0)
    return walk.Terms(None, walk.Budget(size, 10.0, now_s), most, **options)  # type: ignore[arg-type]


def make_logs(seed: int) -> MemoryLogs:
    """Three logs with batches of many sizes, holes between them, times that go up and down."""
    rng = random.Random(seed)
    logs = {}
    for partition in range(3):
        data, offset = b"", rng.randrange(3)
        for _ in range(rng.randrange(1, 12)):
            count = rng.choice((1, 2, 40))
            records = [
                Record(b"k%d" % rng.randrange(3), b"v" * rng.randrange(300), rng.randrange(1000))
                for _ in range(count)
            ]
            data += batch(offset, records, compression=rng.choice((0, 1)))
            offset += count + rng.choice((0, 0, 5))
        logs[partition] = data
    return MemoryLogs(logs)


async def pages(
    logs: MemoryLogs, limit: int, *, newest: bool, **options: Any
) -> list[list[tuple[int, int]]]:
    windows, found = logs.windows(), []
    for _ in range(2000):
        terms = make_terms(limit, **options)
        walked = await walk.walk(
            terms, walk.ways(terms, windows, newest=newest), limit, newest=newest
        )
        found.append([(seen.partition, seen.offset) for seen in walked.records])
        if not walked.cursor:
            return found
        for tp, (low, high) in windows.items():
            at = walked.cursor[tp.partition]
            windows[tp] = (low, min(high, at)) if newest else (max(low, at), high)
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("seed", range(4))
async def test_all_pages_have_each_record_once(
    seed: int, newest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = make_logs(seed)
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    whole = (await pages(logs, 100_000, newest=newest))[0]
    assert len(whole) == len(set(whole)) > 0
    for limit, size in ((3, BUDGET), (50, 2000)):
        found = [
            one for page in await pages(logs, limit, newest=newest, bytes=size) for one in page
        ]
        assert sorted(found) == sorted(whole)
        for partition in range(3):
            offsets = [offset for where, offset in found if where == partition]
            assert offsets == sorted(offsets, reverse=newest)


async def test_the_order_is_that_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = MemoryLogs(
        {p: batch(0, [Record(None, b"", 10 * i + p) for i in range(20)]) for p in range(3)}
    )
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    for newest in (True, False):
        terms = make_terms(60)
        walked = await walk.walk(
            terms, walk.ways(terms, logs.windows(), newest=newest), 60, newest=newest
        )
        times = [seen.timestamp_ms for seen in walked.records]
        assert times == sorted(times, reverse=newest)
        assert len(times) == 60


async def test_a_search_says_how_far_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = MemoryLogs(
        {0: b"".join(batch(i, [Record(b"k%d" % i, b"x" * 1000, i)]) for i in range(50))}
    )
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    terms = make_terms(
        5, bytes=10_000, wanted=lambda record: record.key == b"k3", partition_bytes=2000
    )
    walked = await walk.walk(terms, walk.ways(terms, logs.windows(), newest=True), 5, newest=True)
    assert (walked.records, walked.stopped) == ([], "bytes")
    assert 3 < walked.cursor[0] < 50
    assert 0 < terms.budget.looked < 50
    found = await pages(
        logs, 5, newest=True, bytes=10_000, wanted=lambda record: record.key == b"k3"
    )
    assert [one for page in found for one in page] == [(0, 3)]


async def test_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = make_logs(1)
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    terms = make_terms(5, now_s=lambda: 11.0)
    walked = await walk.walk(terms, walk.ways(terms, logs.windows(), newest=True), 5, newest=True)
    assert (walked.records, walked.stopped, logs.fetches) == ([], "time", 0)


async def test_open_transactions_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(batch(i, [Record(None, b"v", i)]) for i in range(10))
    logs = MemoryLogs({0: data}, stable={0: 6})
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    for newest in (True, False):
        found = await pages(logs, 4, newest=newest, committed_only=True)
        assert sorted(one for page in found for one in page) == [(0, i) for i in range(6)]


async def test_a_partition_that_cannot_be_read_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    good = b"".join(batch(i, [Record(None, b"v", i)]) for i in range(3))
    broken = bytearray(batch(3, [Record(None, b"v" * 50, 3)]))
    broken[-20:] = bytes(20)
    broken[61] = 0x7F
    logs = MemoryLogs({0: good + bytes(broken) + batch(4, [Record(None, b"v", 4)])})
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    for newest in (True, False):
        terms = make_terms(50)
        walked = await walk.walk(
            terms, walk.ways(terms, logs.windows(), newest=newest), 50, newest=newest
        )
        assert sorted(seen.offset for seen in walked.records) == [0, 1, 2, 4]
        assert any("offsets 3 to 3 cannot be shown" in note for note in walked.notes)
        assert walked.cursor == {}


async def test_a_leader_that_moves_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = MemoryLogs({0: batch(0, [Record(None, b"v", 1)] * 3)}, absent=3)
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    assert await pages(logs, 10, newest=False) == [[(0, 0), (0, 1), (0, 2)]]
    logs = MemoryLogs({0: batch(0, [Record(None, b"v", 1)] * 3)}, absent=100)
    monkeypatch.setattr(walk, "RecordReader", logs.reader)
    terms = make_terms(10)
    walked = await walk.walk(terms, walk.ways(terms, logs.windows(), newest=True), 10, newest=True)
    assert walked.records == []
    assert "t-0 cannot be read" in walked.notes[0]
