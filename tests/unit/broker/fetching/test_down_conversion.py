"""What consumers older than 0.11 get: how much, and what happens where nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.fetching import down_conversion
from ottla.broker.fetching.down_conversion import DownConversion
from ottla.broker.fetching.reads import CUT_BATCH
from ottla.broker.replication.examiner import Examiner
from ottla.broker.replication.fetch_protocol import FetchResult
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.storage.segment.slices import RecordSlice
from ottla.wire import message_sets, records
from ottla.wire.compression import GZIP, ZSTD


def _conversion(version: int) -> DownConversion:
    return DownConversion(version, Examiner(system_runtime()))


def _batch(base_offset: int = 0, count: int = 3, value: bytes = b"v", codec: int = 0) -> bytes:
    items = [records.Record(b"k", value, 100 + n) for n in range(count)]
    return records.build_batch(items, base_offset=base_offset, compression=codec)


def _marker(base_offset: int) -> bytes:
    return records.build_marker(
        producer_id=1,
        producer_epoch=0,
        commit=True,
        coordinator_epoch=0,
        timestamp_ms=5,
        base_offset=base_offset,
    )


def _result(*parts: bytes, high_watermark: int = 100) -> FetchResult:
    data = memoryview(b"".join(parts))
    return FetchResult(ErrorCode.NONE, high_watermark, high_watermark, 0, data)


def _offsets(result: FetchResult) -> list[int]:
    assert result.error is ErrorCode.NONE
    found = []
    for entry in message_sets.iter_entries(result.records or b""):
        message = message_sets.read_message(entry)
        inner = message_sets.inner_messages(message) if message.codec else [message]
        found += [one.offset for one in inner]
    return found


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
async def test_the_format_of_a_version(version: int, magic: int) -> None:
    result = await _conversion(version).convert(_result(_batch()), 1)
    assert result.records is not None and result.records[16] == magic
    assert _offsets(result) == [1, 2]
    assert result.high_watermark == 100


async def test_errors_and_empty_answers_stay() -> None:
    conversion = _conversion(3)
    refused = FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert await conversion.convert(refused, 0) is refused
    nothing = _result()
    assert await conversion.convert(nothing, 0) is nothing


async def test_markers_and_a_cut_end_are_left_out() -> None:
    parts = (_marker(0), _batch(1), _marker(4), _batch(5, codec=GZIP), _batch(8)[:70])
    result = await _conversion(3).convert(_result(*parts), 0)
    assert _offsets(result) == [1, 2, 3, 5, 6, 7]


async def test_zstd_ends_what_is_sent() -> None:
    zstd = _batch(3, codec=ZSTD)
    result = await _conversion(3).convert(_result(_batch(), zstd, _batch(6)), 0)
    assert _offsets(result) == [0, 1, 2]
    for parts in ((zstd,), (_marker(0), zstd), (_batch(), zstd)):
        result = await _conversion(3).convert(_result(*parts), 3)
        assert result == FetchResult(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


async def test_damage_ends_it_too() -> None:
    damaged = bytearray(_batch(3))
    damaged[60] = 200
    result = await _conversion(3).convert(_result(_batch(), bytes(damaged)), 0)
    assert _offsets(result) == [0, 1, 2]
    result = await _conversion(3).convert(_result(bytes(damaged)), 3)
    assert result.error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("parts", [(_marker(0),), (_batch(0)[:40],), (_batch(0), _marker(3))])
async def test_a_client_is_told_to_ask_for_more(parts: tuple[bytes, ...]) -> None:
    """Nothing that it can read came, and there is more behind."""
    result = await _conversion(1).convert(_result(*parts), 3)
    assert bytes(result.records or b"") == CUT_BATCH
    assert list(message_sets.iter_entries(CUT_BATCH)) == []


async def test_markers_at_the_end_of_the_log_are_nothing() -> None:
    result = await _conversion(3).convert(_result(_marker(3), high_watermark=4), 3)
    assert (result.error, result.size) == (ErrorCode.NONE, 0)


async def test_a_partition_gets_about_what_was_read() -> None:
    """Messages take more than records: what the limit has no room for is asked for again."""
    parts = [_batch(n * 50, 50) for n in range(20)]
    result = await _conversion(3).convert(_result(*parts), 0)
    found = _offsets(result)
    assert found == list(range(len(found))) and 50 < len(found) < 1000
    assert result.size < sum(map(len, parts)) + 4000


async def test_an_answer_has_a_limit_but_every_partition_its_first_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(down_conversion, "MOST_CONVERTED_BYTES", 2000)
    conversion = _conversion(3)
    parts = [_batch(n * 3, value=bytes(500)) for n in range(5)]
    first = await conversion.convert(_result(*parts), 0)
    second = await conversion.convert(_result(*parts), 0)
    assert len(_offsets(first)) == 6
    assert len(_offsets(second)) == 3


async def test_others_are_served_between_two_batches() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await _conversion(3).convert(_result(*(_batch(n, 1, bytes(99)) for n in range(9))), 0)
    task.cancel()
    assert turns >= 8


@pytest.mark.parametrize("codec", [0, GZIP])
async def test_others_are_served_within_a_large_batch(codec: int) -> None:
    """A few kilobytes may hold a million records, and a broker that stands still for a minute has
    lost its session."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    result = await _conversion(3).convert(_result(_batch(0, 5000, b"", codec)), 0)
    task.cancel()
    assert _offsets(result) == list(range(5000))
    assert turns >= 10


class _File:
    """Records that are still in their file."""

    def __init__(self, data: bytes) -> None:
        self.cuts, self.data, self.read_bytes = 0, data, 0

    def records(self, position: int, size: int) -> _File:
        return self

    def read_at(self, size: int, position: int) -> bytes:
        self.read_bytes += size
        return self.data[position : position + size]


async def test_no_more_is_read_than_may_be_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down_conversion, "MOST_CONVERTED_BYTES", 1000)
    large = _batch(0, value=b"x" * 5000)
    file = _File(large + b"".join(_batch(3 * n) for n in range(1, 500)))
    whole = RecordSlice(file, 0, len(file.data))  # type: ignore[arg-type]
    result = await _conversion(3).convert(_result()._replace(records=whole), 0)
    assert _offsets(result) == [0, 1, 2], "the first batch is given whole"
    assert file.read_bytes < len(large) + 2000
    small = RecordSlice(file, len(large), len(file.data) - len(large))  # type: ignore[arg-type]
    result = await _conversion(3).convert(_result()._replace(records=small), 3)
    assert 3 < len(_offsets(result)) < 100


async def test_records_that_left_the_log_meanwhile_are_asked_for_again() -> None:
    file = _File(_batch())
    result = _result()._replace(records=RecordSlice(file, 0, len(file.data)))  # type: ignore[arg-type]
    file.cuts += 1
    assert (await _conversion(3).convert(result, 0)).error is ErrorCode.KAFKA_STORAGE_ERROR
