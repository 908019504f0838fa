"""What a page learns of a record, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.fetch import FetchedData
from ottla.console.records import seen
from ottla.console.records.seen import Found, Reading, decode
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_marker
from tests.support.console.logs import batch

TP = TopicPartition("t", 2)


async def read(data: bytes, aborted: Any = (), **options: Any) -> Found:
    reading = Reading(**{"start": 0, "end": 1 << 60, "most": 100, **options})
    return await decode(FetchedData(TP, data, 1 << 60, aborted), reading)


async def test_large_values_are_cut_and_their_size_is_told() -> None:
    headers = [(f"h{i}", b"x" * 2000) for i in range(150)]
    found = await read(batch(7, [Record(b"k", b"v" * 10_000, 5, headers)], compression=4))
    [one] = found.records
    assert (one.partition, one.offset, one.timestamp_ms) == (2, 7, 5)
    assert one.value is not None
    assert (len(one.value.data), one.value.size, one.value.is_cut) == (4096, 10_000, True)
    assert (len(one.headers), one.header_count) == (100, 150)
    assert one.compression == "zstd"
    assert one.size > 300_000


async def test_null_and_empty_are_different() -> None:
    [one] = (await read(batch(0, [Record(None, b"", 1)]))).records
    assert one.key is None
    assert one.value == (b"", 0)


async def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "MAX_BATCH_BYTES", 20_000)
    data = batch(0, [Record(None, bytes(1_000_000), 1)], compression=1)
    found = await read(data + batch(1, [Record(None, b"after", 1)]))
    assert [one.offset for one in found.records] == [1]
    assert "offsets 0 to 0 cannot be shown" in found.notes[0]


async def test_records_of_aborted_transactions_are_for_others() -> None:
    options = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    data = (
        batch(0, [Record(None, b"aborted", 1)], base_sequence=0, **options)
        + build_marker(
            commit=False,
            producer_id=9,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=1,
        )
        + batch(2, [Record(None, b"kept", 1)], base_sequence=1, **options)
    )
    found = await read(data, aborted=[(9, 0)], committed_only=True, markers=True)
    assert [(one.offset, one.marker) for one in found.records] == [(1, "abort"), (2, None)]
    assert [one.is_transactional for one in found.records] == [True, True]
    found = await read(data)
    assert [one.offset for one in found.records] == [0, 2]


async def test_bytes_that_are_no_batch_have_a_note() -> None:
    found = await read(batch(0, [Record(None, b"v", 1)]) + bytes(100))
    assert [one.offset for one in found.records] == [0]
    assert found.notes


async def test_no_more_is_decoded_than_is_asked_for() -> None:
    data = batch(0, [Record(None, b"", 1)] * 20_000)
    found = await read(data, most=3)
    assert (len(found.records), found.looked, found.next_offset) == (3, 3, 3)
    found = await read(data, most=3, keep_last=True)
    assert [one.offset for one in found.records] == [19_997, 19_998, 19_999]
    found = await read(data, most=10**6, is_over=lambda: True)
    assert found.looked < 1000
    assert "the time was over" in found.notes[0]
