"""Searches by timestamp that take their time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.append.steps import Pause, finished
from ottla.storage.log.log import Log
from ottla.storage.log.lookup import (
    BatchScan,
    LogChanged,
    Search,
    search_at_or_after,
    search_max_timestamp,
)
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, new_log

RECORDS = 5_000


def long_log(folder: Path, codec: int = 0, value: bytes = b"") -> Log:
    log = new_log(folder)
    items = [records.Record(None, value, START_MS + number) for number in range(RECORDS)]
    batch = records.build_batch(items, compression=codec)
    log.append_as_leader(memoryview(bytearray(batch)), 0)
    return log


def outcome(search: Search, scan: BatchScan) -> int | None:
    with pytest.raises(StopIteration) as stopped:
        search.send(finished(scan.steps()))
    found = stopped.value.value
    return None if found is None else found.offset


def test_a_long_batch_is_looked_through_in_steps(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    search = search_at_or_after(log, START_MS + RECORDS - 1)
    scan = next(search)
    pauses = list(scan.steps())
    assert len(pauses) >= 4 and set(pauses) == {Pause.SHORT}
    assert outcome(search, scan) == RECORDS - 1


def test_what_unpacks_to_much_is_announced(tmp_path: Path) -> None:
    log = long_log(tmp_path, codec=4, value=b"x" * 1000)
    search = search_max_timestamp(log)
    scan = next(search)
    assert next(scan.steps()) is Pause.LONG
    assert outcome(search, scan) == RECORDS - 1


def test_a_log_that_changes_meanwhile(tmp_path: Path) -> None:
    log = long_log(tmp_path)
    search = search_at_or_after(log, START_MS)
    scan = next(search)
    log.truncate_fully_and_start_at(RECORDS)
    with pytest.raises(LogChanged, match="segment from 0 on"):
        search.send(finished(scan.steps()))
