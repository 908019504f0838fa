"""Both sparse indexes of a segment: growing, files, truncation, and files that lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import InvariantViolated
from ottla.runtime import File, SystemDisk
from ottla.storage.segment.sparse_indexes import SparseIndexes, rebuild
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, batch

BASE = 50
INTERVAL = 300


class Rig:
    """A log file of twenty batches with five records each, and the indexes that grew with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = SystemDisk()
        self.file: File = self.disk.open(folder / f"{BASE:020d}.log")
        self.size = 0
        self.grown = SparseIndexes(self.disk, folder, BASE, INTERVAL, is_empty=True)
        for number in range(20):
            view = batch(5, timestamp=START_MS + 10 * number)
            records.patch(view, BASE + 5 * number, 0)
            self.file.write_at(view, self.size)
            last = (0, BASE + 5 * number + 4, START_MS + 10 * number + 4)
            self.grown.add([last], self.size, len(view))
            self.size += len(view)
            self.batch_bytes = len(view)

    def loaded(self) -> SparseIndexes:
        indexes = SparseIndexes(self.disk, self.folder, BASE, INTERVAL, is_empty=False)
        indexes.load(self.file, self.size, is_sealed=True)
        return indexes

    def answers(self, indexes: SparseIndexes) -> list[object]:
        return [
            indexes.entry_counts(),
            (indexes.max_timestamp, indexes.max_timestamp_offset),
            [indexes.position_before(offset) for offset in range(BASE, BASE + 101)],
            [indexes.offset_before_time(START_MS + ms) for ms in range(201)],
            [indexes.batch_start(place) for place in range(0, self.size, 100)],
            [indexes.offset_after(place) for place in range(0, self.size, 100)],
            indexes.last_position(),
        ]


def test_written_indexes_answer_as_those_that_grew(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.grown.write()
    assert rig.answers(rig.loaded()) == rig.answers(rig.grown)
    assert rig.grown.entry_counts()[0] > 3


def test_missing_files_are_made_up_for_from_the_log(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    loaded = rig.loaded()
    rig.grown.write()  # adds the time entry of the end, which a scan adds as well
    assert rig.answers(loaded) == rig.answers(rig.grown)


def test_files_that_contradict_the_log_are_written_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.grown.write()
    path = tmp_path / f"{BASE:020d}.index"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert rig.answers(rig.loaded()) == rig.answers(rig.grown)
    assert path.read_bytes() == good


def test_a_truncation_forgets_entries_and_the_largest_timestamp(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    size = 7 * rig.batch_bytes
    rig.file.truncate(size)
    rig.grown.truncate(size, BASE + 35)
    rig.grown.find_max_timestamp(rig.file, size)
    assert (rig.grown.max_timestamp, rig.grown.max_timestamp_offset) == (START_MS + 64, BASE + 34)
    offsets, times, is_whole = rebuild(rig.file, BASE, size, INTERVAL)
    rig.grown.write()
    assert rig.grown.entry_counts() == (len(offsets), len(times)) and is_whole


def test_after_a_release_only_the_largest_timestamp_is_known(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.grown.write()
    rig.grown.release()
    assert rig.grown.max_timestamp == START_MS + 194
    assert not rig.grown.is_loaded and not rig.grown.is_full(0)
    with pytest.raises(InvariantViolated):
        rig.grown.position_before(BASE)
