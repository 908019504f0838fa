"""The segments of a log: which there are, what is replaced, where offsets lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import InvariantViolated
from ottla.storage.log.segments import Segments
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.segment import MAX_SEGMENT_BYTES
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, batch, offsets_in, runtime


def add_batches(segments: Segments, *first_offsets: int) -> None:
    """Batches of two records each into the active segment."""
    for offset in first_offsets:
        view = batch(2)
        records.patch(view, offset, 0)
        segments.active.append([view], [(0, offset + 1, START_MS + 1)])
        segments.grown_to(offset + 2, segments.active.size)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    """Three of them, from 0, 10 and 20 on; between the first two is a gap, as compaction leaves."""
    made = Segments(runtime(), OpenFiles(4), tmp_path)
    for base in (0, 10, 20):
        if base:
            made.active.seal()
        made.start(base, 4096)
        add_batches(made, base, base + 2, *((16, 18) if base == 10 else ()))
    return made


def test_they_are_a_sequence_and_the_last_one_is_active(segments: Segments) -> None:
    assert [segment.base_offset for segment in segments] == [0, 10, 20]
    assert segments.active is segments[-1] and len(segments) == 3
    assert segments.size == sum(segment.size for segment in segments[:2]) + segments[2].size
    assert [segments.count_up_to(offset) for offset in (-1, 0, 9, 10, 99)] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("offset", "end", "found"),
    [
        (0, None, [0, 1, 2, 3]),
        (3, 10, [2, 3]),
        (5, None, [10, 11, 12, 13, 16, 17, 18, 19]),  # in the gap: the next segment has more
        (11, 16, [10, 11, 12, 13]),
        (22, None, [22, 23]),
        (20, 22, [20, 21]),
        (24, None, []),
    ],
)
def test_a_read_begins_with_the_batch_of_the_offset(
    segments: Segments, offset: int, end: int | None, found: list[int]
) -> None:
    assert offsets_in(segments.read(offset, 1 << 20, end, min_one_batch=True)) == found


def test_bytes_to_wait_for_have_no_end_on_an_older_segment(segments: Segments) -> None:
    size = len(batch(2))
    assert segments.bytes_between(20, 24, is_to_end=True) == 2 * size
    assert segments.bytes_between(20, 22, is_to_end=False) == size
    assert segments.bytes_between(12, 24, is_to_end=True) == MAX_SEGMENT_BYTES
    assert segments.bytes_between(12, 20, is_to_end=False) == MAX_SEGMENT_BYTES
    assert segments.is_one(10, 19) and segments.is_one(20, 99)
    assert not segments.is_one(19, 20)


def test_the_active_segment_is_cut_before_the_batch_of_the_offset(segments: Segments) -> None:
    assert segments.truncate_active(23) == 22
    assert segments.active.next_offset() == 22
    assert not segments.read(22, 1 << 20, None, min_one_batch=True)
    assert segments.truncate_active(30) == 30


def test_dropped_files_are_set_aside(segments: Segments) -> None:
    removed = segments.drop(0, 1)
    assert [segment.base_offset for segment in segments] == [10, 20]
    assert removed and all(path.exists() and path.suffix == ".deleted" for path in removed)


def test_only_neighbours_that_are_sealed_are_replaced(segments: Segments) -> None:
    old, newer = segments[0], segments[1]
    compacted = segments.opened(0, 0, index_interval_bytes=4096, created_ms=START_MS)
    assert segments.holds([old, newer]) and not segments.holds([newer, old])
    for parts in ([newer, old], segments[1:]):
        with pytest.raises(InvariantViolated):
            segments.replace(parts, compacted)
    segments.replace([old, newer], compacted)
    assert segments[0] is compacted and len(segments) == 2
    assert segments.count_up_to(15) == 1


def test_files_are_found_in_a_renamed_folder(segments: Segments, tmp_path: Path) -> None:
    segments.release()
    segments.move_to(tmp_path.rename(tmp_path.with_name("renamed")))
    assert offsets_in(segments.read(0, 1 << 20, None, min_one_batch=True)) == [0, 1, 2, 3]
    tmp_path.mkdir()
