"""Records that stay in their file: the same bytes as a read, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.log.log import Log
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.slices import RecordSlice, SliceGone
from tests.support.storage.log_helpers import batch, new_log, settings

BATCHES = 12


def filled(path: Path, *, open_files: OpenFiles | None = None) -> Log:
    """Four batches of some 1,000 bytes per segment."""
    log = new_log(path, settings(segment_bytes=4500), open_files=open_files)
    for number in range(BATCHES):
        log.append_as_leader(batch(1, value=bytes([65 + number]) * 1000), leader_epoch=0)
    assert len(log.segments) == 3
    return log


def sliced(log: Log, offset: int, max_bytes: int = 1 << 20) -> RecordSlice:
    found = log.read_or_slice(
        offset, max_bytes, log.end_offset, min_one_batch=True, sliced_from=1024
    )
    assert isinstance(found, RecordSlice)
    return found


def in_pieces(part: RecordSlice, size: int) -> bytes:
    return b"".join(part.read(start, size) for start in range(0, len(part), size))


@pytest.mark.parametrize("offset", [0, 2, 5, 11])
@pytest.mark.parametrize("max_bytes", [0, 1, 12, 500, 1024, 1500, 2500, 1 << 20])
@pytest.mark.parametrize("min_one_batch", [True, False])
def test_the_same_bytes_as_a_read(
    tmp_path: Path, offset: int, max_bytes: int, min_one_batch: bool
) -> None:
    log = filled(tmp_path)
    end = log.end_offset
    whole = log.read(offset, max_bytes, end, min_one_batch=min_one_batch)
    found = log.read_or_slice(offset, max_bytes, end, min_one_batch=min_one_batch, sliced_from=1024)
    assert isinstance(found, RecordSlice) == (len(whole) >= 1024)
    assert len(found) == len(whole)
    if isinstance(found, RecordSlice):
        assert in_pieces(found, 700) == found.read(0, 1 << 20) == bytes(whole)


def test_appends_and_closed_descriptors_do_not_matter(tmp_path: Path) -> None:
    log = filled(tmp_path, open_files=OpenFiles(1))
    parts = [sliced(log, offset) for offset in (0, 4, 8)]
    before = [bytes(log.read(o, 1 << 20, log.end_offset, min_one_batch=True)) for o in (0, 4, 8)]
    log.append_as_leader(batch(1, value=bytes(3000)), leader_epoch=0)
    log.release()
    assert [in_pieces(part, 1000) for part in parts] == before


def test_nothing_instead_of_the_bytes_that_took_their_place(tmp_path: Path) -> None:
    log = filled(tmp_path)
    part, untouched = sliced(log, 10), sliced(log, 4)
    log.truncate_to(9)
    for _ in range(3):
        log.append_as_leader(batch(1, value=b"other" * 200), leader_epoch=0)
    with pytest.raises(SliceGone):
        part.read(0, 100)
    assert untouched.read(0, 100)


def test_nothing_of_a_segment_that_left_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    first, second = sliced(log, 0), sliced(log, 4)
    log.segments.drop(0, 1)
    # Another file may have the name by now.
    log.segments.opened(0, 0, index_interval_bytes=4096, created_ms=0).path(".log").write_bytes(
        b"x" * 10_000
    )
    with pytest.raises(SliceGone):
        first.read(0, 100)
    assert second.read(0, 100)


def test_a_file_that_is_too_short_is_noticed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    part = sliced(log, 0)
    path = log.segments[0].path(".log")
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(SliceGone, match="bytes are in the file"):
        in_pieces(part, 1000)
