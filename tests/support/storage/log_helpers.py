"""Batches, logs and a clock for the storage tests."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from ottla.runtime import Runtime, SystemDisk, SystemNetwork
from ottla.storage.append.steps import finished
from ottla.storage.log import lookup
from ottla.storage.log.log import Log
from ottla.storage.log.recovery import load_log
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records

TP = TopicPartition("orders", 3)
START_MS = 1_700_000_000_000


class ManualClock:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> float:
        return float(self.ms)


def runtime(clock: ManualClock | None = None) -> Runtime:
    return Runtime(clock or ManualClock(), random.Random(7), SystemNetwork(), SystemDisk())


def batch(
    count: int = 1,
    *,
    timestamp: int = START_MS,
    value: bytes = b"v" * 20,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] | None = None,
    compression: int = 0,
    step_ms: int = 1,
) -> memoryview:
    """A client's batch; `producer` is (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    items = [records.Record(key, value, timestamp + n * step_ms) for n in range(count)]
    built = records.build_batch(
        items,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return memoryview(bytearray(built))


def settings(**changes: object) -> LogConfig:
    return replace(LogConfig(), **changes)  # type: ignore[arg-type]


def new_log(
    path: Path,
    config: LogConfig | None = None,
    *,
    clock: ManualClock | None = None,
    open_files: OpenFiles | None = None,
    tp: TopicPartition = TP,
) -> Log:
    return Log.create(
        runtime(clock),
        # One that has nothing open is false.
        OpenFiles(16) if open_files is None else open_files,
        tp,
        path / str(tp),
        config or LogConfig(),
    )


def reopen(log: Log, *, clean: bool = False, recovery_point: int = 0, start: int = 0) -> Log:
    """The log as a new process finds it."""
    return load_log(
        runtime(),
        OpenFiles(16),
        log.tp,
        log.folder,
        log.settings,
        clean=clean,
        recovery_point=recovery_point,
        start_offset=start,
        high_watermark=log.high_watermark,
    )


def offsets_in(data: memoryview) -> list[int]:
    """Offsets of all records in whole batches."""
    return [
        record.offset
        for _, view in records.iter_batches(data)
        for record in records.iter_records(view)
    ]


def all_offsets(log: Log) -> list[int]:
    """Every record from the log's start to its end, read as a follower would."""
    found: list[int] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, log.end_offset, min_one_batch=True)
        part = [number for number in offsets_in(data) if number >= offset]
        if not part:
            break
        found += part
        offset = part[-1] + 1
    return found


def found_by(search: lookup.Search) -> lookup.TimedOffset | None:
    """What a search by timestamp comes to, made at once."""
    try:
        scan = next(search)
        while True:
            scan = search.send(finished(scan.steps()))
    except StopIteration as done:
        found: lookup.TimedOffset | None = done.value
        return found
