"""What a reader of old records leaves in the page cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ottla.runtime import SystemFile
from ottla.storage.log.log import Log
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import Removals
from ottla.storage.segment.cold_reads import PART_BYTES, ColdReads
from ottla.storage.segment.open_files import OpenFiles
from ottla.testing.page_cache import resident_pages, uncache
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch, new_log, runtime, settings

SEGMENT_BYTES = 4 * PART_BYTES
SEGMENTS = 5
KEPT_PARTS = 2
PAGES_OF_A_PART = PART_BYTES // 4096
# The kernel reads ahead, up to a few hundred kilobytes at the end of what is asked for.
AHEAD_PAGES = PAGES_OF_A_PART


class Pages:
    """A file of which some parts are in the cache."""

    def __init__(self, *cached: int) -> None:
        self.cached = set(cached)
        self.dropped: list[int] = []
        self.fetched: list[int] = []

    def file(self) -> Pages:
        return self

    def is_cached(self, position: int) -> bool:
        return position // PART_BYTES in self.cached

    def prefetch(self, position: int, size: int) -> None:
        assert size == PART_BYTES
        self.fetched.append(position // PART_BYTES)

    def uncache(self, position: int, size: int) -> None:
        assert size == PART_BYTES
        self.dropped.append(position // PART_BYTES)

    def scan(self, reads: ColdReads, *, piece: int = 256 * 1024, parts: int = 10) -> None:
        for position in range(0, parts * PART_BYTES, piece):
            reads.note(self, position, piece)  # type: ignore[arg-type]


def test_a_scan_keeps_no_more_than_the_limit() -> None:
    reads, pages = ColdReads(3 * PART_BYTES), Pages()
    pages.scan(reads)
    assert pages.dropped == [0, 1, 2, 3, 4, 5, 6]
    assert len(reads) == 3
    assert pages.fetched == list(range(1, 11)), "each once, before it is read"


def test_what_was_cached_before_is_not_touched() -> None:
    reads, pages = ColdReads(PART_BYTES), Pages(*range(10))
    pages.scan(reads)
    assert not pages.dropped + pages.fetched
    assert not len(reads)


def test_what_the_kernel_read_ahead_is_borrowed_as_well() -> None:
    reads, pages = ColdReads(PART_BYTES), Pages(1, 2, 3)
    pages.scan(reads, parts=4)
    assert pages.dropped == [0, 1, 2]


def test_readers_close_behind_each_other_share() -> None:
    reads, pages = ColdReads(8 * PART_BYTES), Pages()
    step = 256 * 1024
    for position in range(0, 20 * PART_BYTES, step):
        for reader in range(10):
            behind = position - reader * step
            if behind >= 0:
                reads.note(pages, behind, step)  # type: ignore[arg-type]
    assert pages.dropped == list(range(12)), "each once, when all of them have passed"


def test_a_read_over_many_parts() -> None:
    reads, pages = ColdReads(2 * PART_BYTES), Pages()
    reads.note(pages, PART_BYTES // 2, 5 * PART_BYTES)  # type: ignore[arg-type]
    assert pages.dropped == [0, 1, 2, 3]


class Gone(Pages):
    def uncache(self, position: int, size: int) -> None:
        raise FileNotFoundError(position)


def test_a_segment_that_is_gone_does_no_harm() -> None:
    reads, pages = ColdReads(PART_BYTES), Gone()
    pages.scan(reads)
    assert len(reads) == 1


def test_parts_of_a_forgotten_segment_are_let_go_of_at_once() -> None:
    reads, pages, other = ColdReads(8 * PART_BYTES), Pages(), Pages()
    pages.scan(reads, parts=3)
    other.scan(reads, parts=2)
    reads.forget(pages)  # type: ignore[arg-type]
    assert pages.dropped == [0, 1, 2] and not other.dropped
    other.scan(reads, parts=20)
    assert pages.dropped == [0, 1, 2], "its name may be another file's by now"


# --- segments that are gone ------------------------------------------------------------------


@pytest.fixture
def let_go_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nothing is in the page cache; the inodes of which parts are let go of."""
    inodes: list[int] = []

    def uncache(file: SystemFile, position: int, size: int) -> None:
        inodes.append(os.fstat(file._fd).st_ino)

    monkeypatch.setattr(SystemFile, "is_cached", lambda _file, _position: False)
    monkeypatch.setattr(SystemFile, "uncache", uncache)
    return inodes


def read_all(log: Log) -> None:
    for offset in range(log.end_offset):
        assert log.read(offset, 1 << 20, log.end_offset, min_one_batch=True)


def two_logs(path: Path, files: OpenFiles) -> tuple[Log, Log]:
    """Of three segments each, the last of which is never cold."""
    logs = [
        new_log(
            path, settings(segment_bytes=1500), open_files=files, tp=TopicPartition("t", number)
        )
        for number in range(2)
    ]
    for log in logs:
        for _ in range(3):
            log.append_as_leader(batch(1, value=bytes(1000)), leader_epoch=0)
        assert len(log.segments) == 3
    return logs[0], logs[1]


def test_what_is_let_go_of_does_not_stay_open(tmp_path: Path, let_go_of: list[int]) -> None:
    files = OpenFiles(16)
    files.cold_reads = ColdReads(2 * PART_BYTES)
    log, other = two_logs(tmp_path, files)
    read_all(log)
    for segment in log.segments:
        segment.release()
        files.forget(segment)
    read_all(other)
    assert let_go_of == [segment.path(".log").stat().st_ino for segment in log.segments[:2]]
    assert len(files) == len(other.segments)
    assert all(segment._file is None for segment in log.segments)


def test_segments_of_a_deleted_log_are_not_opened_again(
    tmp_path: Path, let_go_of: list[int]
) -> None:
    files = OpenFiles(16)
    files.cold_reads = ColdReads(2 * PART_BYTES)
    log, other = two_logs(tmp_path, files)
    read_all(log)
    removals = Removals(runtime(), DataDirs(runtime(), [tmp_path], LogTable()), files)
    assert len(files.cold_reads) == 2 and removals.doom(log)
    read_all(other)
    assert len(files) == len(other.segments)
    assert len(let_go_of) == 2, "what was read of it, when it was deleted"


def test_another_file_of_the_same_name_is_left_alone(tmp_path: Path, let_go_of: list[int]) -> None:
    files = OpenFiles(16)
    files.cold_reads = ColdReads(2 * PART_BYTES)
    log, other = two_logs(tmp_path, files)
    read_all(log)
    first = log.segments[0]
    log.segments.drop(0, 1)
    first.path(".log").write_bytes(b"of a compaction")
    let_go_of.clear()
    read_all(other)
    assert first._file is None
    assert let_go_of == [log.segments[0].path(".log").stat().st_ino], "the second, by now the first"


# --- the real page cache ----------------------------------------------------------------------


def filled(path: Path) -> Log:
    files = OpenFiles(16)
    files.cold_reads = ColdReads(KEPT_PARTS * PART_BYTES)
    log = new_log(path, settings(segment_bytes=SEGMENT_BYTES), open_files=files)
    while len(log.segments) < SEGMENTS:
        log.append_as_leader(batch(1, value=bytes(500_000)), leader_epoch=0)
    for _ in range(5):
        log.append_as_leader(batch(1, value=bytes(500_000)), leader_epoch=0)
    return log


def files_of(log: Log) -> list[Path]:
    return sorted(log.folder.glob("*.log"))


def scan(log: Log) -> None:
    """As a consumer that begins at the beginning."""
    offset = 0
    while offset < log.end_offset:
        found = log.read_or_slice(
            offset, 1_048_576, log.end_offset, min_one_batch=True, sliced_from=64 * 1024
        )
        for start in range(0, len(found), 256 * 1024):
            found.read(start, 256 * 1024)  # type: ignore[union-attr]  # records are large
        offset += max(1, len(found) // 500_000)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    if sys.platform != "linux":
        pytest.skip("posix_fadvise and mincore are Linux's")
    log = filled(tmp_path)
    uncache(files_of(log)[0])
    if any(resident_pages(files_of(log)[0])):
        pytest.skip(f"{tmp_path} is on a file system that keeps everything in memory")
    return log


def test_a_cold_scan_leaves_the_tail_and_little_else(log: Log) -> None:
    old, tail = files_of(log)[:-1], files_of(log)[-1]
    for path in old:
        uncache(path)
    scan(log)
    resident = sum(sum(resident_pages(path)) for path in old)
    assert resident <= KEPT_PARTS * PAGES_OF_A_PART + AHEAD_PAGES
    assert all(resident_pages(tail))


def test_old_records_that_are_hot_stay(log: Log) -> None:
    *cold, hot, _ = files_of(log)
    for path in cold:
        uncache(path)
    before = resident_pages(hot)
    assert all(before), "they were written a moment ago"
    scan(log)
    assert resident_pages(hot) == before
    assert sum(sum(resident_pages(path)) for path in cold) <= (
        KEPT_PARTS * PAGES_OF_A_PART + AHEAD_PAGES
    )
