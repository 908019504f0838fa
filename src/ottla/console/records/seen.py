"""Batches to records as a page needs them: the beginning of each value, and where it came from.

A batch of a few kilobytes may hold a million records or hundreds of megabytes: work is done in
steps, large bodies are unpacked off the event loop and up to a limit, and of keys and values only
the beginning is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.wire import records
from ottla.wire.compression import CODEC_NAMES
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.client.fetch import FetchedData
    from ottla.wire.records import BatchHeader, Record

# Of a batch when it is decompressed.
MAX_BATCH_BYTES = 64 * 1024 * 1024
PREVIEW_BYTES = 4096
MAX_HEADERS = 100
_HEADER_PREVIEW_BYTES = 512
_ASIDE_BYTES = 64 * 1024
_STEP_S = 0.02
_STEP_RECORDS = 200
_TYPES = {True: "LogAppendTime", False: "CreateTime"}


class Part(NamedTuple):
    """The beginning of a key, a value or a header."""

    data: bytes
    size: int

    @property
    def is_cut(self) -> bool:
        return len(self.data) < self.size


class Seen(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: Part | None
    value: Part | None
    headers: tuple[tuple[str, Part | None], ...]
    header_count: int
    size: int
    compression: str
    is_transactional: bool
    producer_id: int
    # Of a control batch: commit, abort or another word.
    marker: str | None = None


Wanted = Callable[["Record"], bool]


class Found(NamedTuple):
    """Records of one answer, by offset, and what can be said of its batches."""

    records: list[Seen]
    # Of the first batch; None where there is none.
    first_offset: int | None
    next_offset: int | None
    looked: int
    notes: list[str]


class Reading(NamedTuple):
    """What is wanted of a partition: offsets in [start, end), the last or the first `most`."""

    start: int
    end: int
    most: int
    keep_last: bool = False
    markers: bool = False
    committed_only: bool = False
    wanted: Wanted | None = None
    part_bytes: int = PREVIEW_BYTES
    # No time is left.
    is_over: Callable[[], bool] = lambda: False


async def decode(data: FetchedData, reading: Reading) -> Found:
    """Raises nothing for bytes that are no records: says so in the notes and goes on behind."""
    kept: deque[Seen] = deque(maxlen=reading.most if reading.keep_last else None)
    first: int | None = None
    next_offset: int | None = None
    looked = 0
    notes: list[str] = []
    partition = data.partition.partition
    for header, batch in _batches(data, reading, notes):
        if first is None:
            first = header.base_offset
        next_offset = header.next_offset
        if header.base_offset >= reading.end:
            next_offset = reading.end
            break
        if header.is_control:
            if reading.markers and header.last_offset >= reading.start:
                kept.append(_marker(partition, header, batch))
        else:
            try:
                async for record in _records(header, batch):
                    looked += 1
                    if looked % _STEP_RECORDS == 0 and reading.is_over():
                        notes.append(_out_of_time(partition, header, record.offset))
                        break
                    if reading.start <= record.offset < reading.end and (
                        reading.wanted is None or reading.wanted(record)
                    ):
                        kept.append(_seen(partition, header, record, reading.part_bytes))
                        if not reading.keep_last and len(kept) >= reading.most:
                            end = kept[-1].offset + 1
                            return Found(list(kept), first, end, looked, notes)
            except WireError as error:
                where = f"offsets {header.base_offset} to {header.last_offset}"
                notes.append(f"Partition {partition}, {where} cannot be shown: {error}.")
    return Found(list(kept), first, next_offset, looked, notes)


def _out_of_time(partition: int, header: BatchHeader, offset: int) -> str:
    return (
        f"Partition {partition}: the batch of offsets {header.base_offset} to {header.last_offset} "
        f"was looked at up to {offset}, then the time was over."
    )


def _batches(
    data: FetchedData, reading: Reading, notes: list[str]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Those that reach the start; of aborted transactions none with `committed_only`, by the
    algorithm of Kafka's CompletedFetch."""
    waiting = sorted(data.aborted, key=lambda entry: -entry[1])
    aborting: set[int] = set()
    try:
        for header, batch in records.iter_batches(data.records or b""):
            while waiting and waiting[-1][1] <= header.last_offset:
                aborting.add(waiting.pop()[0])
            if header.is_control:
                if header.producer_id in aborting and records.parse_marker(batch).is_abort:
                    aborting.discard(header.producer_id)
            elif (
                reading.committed_only
                and header.is_transactional
                and header.producer_id in aborting
            ):
                # Nothing in it is for the reader; where it ends still counts.
                header = header._replace(record_count=0, batch_length=0)
                yield header, batch[:0]
                continue
            yield header, batch
    except WireError as error:
        notes.append(f"Partition {data.partition.partition}: {error}.")


async def _records(header: BatchHeader, batch: memoryview) -> AsyncIterator[Record]:
    if not len(batch):
        return
    body = batch[records.HEADER_BYTES :]
    if header.codec and (len(body) > _ASIDE_BYTES or header.record_count > _ASIDE_BYTES):
        plain = await asyncio.to_thread(records.decompress, header.codec, body, MAX_BATCH_BYTES)
    else:
        plain = records.decompress(header.codec, body, MAX_BATCH_BYTES)
    content = plain if not isinstance(plain, (bytearray, memoryview)) else bytes(plain)
    since = time.monotonic()
    for number, record in enumerate(records.iter_plain_records(content, header)):
        yield record
        if number % _STEP_RECORDS == 0 and time.monotonic() - since > _STEP_S:
            await asyncio.sleep(0)
            since = time.monotonic()


def _seen(partition: int, header: BatchHeader, record: Record, part_bytes: int) -> Seen:
    sizes = [len(name.encode()) + len(value or b"") for name, value in record.headers]
    return Seen(
        partition,
        record.offset,
        record.timestamp,
        _TYPES[header.is_log_append_time],
        part(record.key, part_bytes),
        part(record.value, part_bytes),
        tuple(
            (name[:_HEADER_PREVIEW_BYTES], part(value, min(part_bytes, _HEADER_PREVIEW_BYTES)))
            for name, value in record.headers[:MAX_HEADERS]
        ),
        len(record.headers),
        len(record.key or b"") + len(record.value or b"") + sum(sizes),
        codec_name(header.codec),
        header.is_transactional,
        header.producer_id,
    )


def part(data: bytes | None, most: int) -> Part | None:
    return None if data is None else Part(bytes(data[:most]), len(data))


def codec_name(codec: int) -> str:
    return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"codec {codec}"


def _marker(partition: int, header: BatchHeader, batch: memoryview) -> Seen:
    try:
        marker = records.parse_marker(batch)
        word = {0: "abort", 1: "commit"}.get(marker.type, f"control {marker.type}")
    except WireError:
        word = "control"
    return Seen(
        partition, header.base_offset, header.max_timestamp, _TYPES[header.is_log_append_time],
        None, None, (), 0, header.size, codec_name(header.codec), header.is_transactional,
        header.producer_id, word,
    )  # fmt: skip
