from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.log.lookup import search_at_or_after, search_max_timestamp
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET
from ottla.wire import records
from tests.support.storage.log_helpers import (
    START_MS,
    ManualClock,
    all_offsets,
    batch,
    found_by,
    new_log,
    offsets_in,
    settings,
)


def test_offsets_and_epoch_are_set_in_place_and_the_rest_is_kept(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(3), leader_epoch=4)
    sent = batch(2)
    untouched = bytes(sent[16:])
    info = log.append_as_leader(sent, leader_epoch=4)
    assert (info.first_offset, info.last_offset, log.end_offset) == (3, 4, 5)
    stored = log.read(3, 1 << 20, 5, min_one_batch=True)
    header = records.read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 4)
    assert bytes(stored[16:]) == untouched
    assert log.epochs.entries() == [(4, 0)]


def test_a_read_only_buffer_is_accepted(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch().toreadonly(), 0)
    assert all_offsets(log) == [0]


def test_reads_stop_at_the_visible_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(100):
        log.append_as_leader(batch(2), 0)
    assert offsets_in(log.read(10, 1 << 20, 16, min_one_batch=True)) == [10, 11, 12, 13, 14, 15]
    assert not log.read(16, 1 << 20, 16, min_one_batch=True)
    assert offsets_in(log.read(0, 1 << 20, 7, min_one_batch=True)) == [0, 1, 2, 3, 4, 5]


def test_the_first_batch_comes_whole_only_where_that_is_promised(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(value=b"x" * 5000), 0)
    assert offsets_in(log.read(0, 10, 1, min_one_batch=True)) == [0]
    assert not log.read(0, 10, 1, min_one_batch=False)
    assert not log.read(0, 1000, 1, min_one_batch=False)


def test_reads_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(5), 0)
    log.set_high_watermark(5)
    log.advance_start_offset(3)
    for offset in (2, 6):
        with pytest.raises(KafkaError) as raised:
            log.read(offset, 100, 5, min_one_batch=True)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not log.read(5, 100, 5, min_one_batch=True)


def test_rolls_by_size_and_reads_across_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=500))
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    assert len(log.segments) > 3
    assert all_offsets(log) == list(range(40))
    assert all(segment.size <= 500 for segment in log.segments)


def test_rolls_by_the_records_own_time(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_ms=1000))
    log.append_as_leader(batch(timestamp=START_MS), 0)
    log.append_as_leader(batch(timestamp=START_MS + 1000), 0)
    assert len(log.segments) == 1
    log.append_as_leader(batch(timestamp=START_MS + 1001), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def check_index_files(log: Log) -> int:
    """What DumpLogSegments asks of index files; returns the number of entries."""
    entries = 0
    for segment in log.segments:
        data = segment.path(".log").read_bytes()
        by_position = {}
        position = 0
        for header, view in records.iter_batches(data):
            by_position[position] = header
            position += len(view)
        last_offsets = {header.last_offset: header for header in by_position.values()}
        for relative, position in struct.iter_unpack(">ii", segment.path(".index").read_bytes()):
            assert by_position[position].last_offset == segment.base_offset + relative
            entries += 1
        previous = -1
        times = segment.path(".timeindex").read_bytes()
        for timestamp, relative in struct.iter_unpack(">qi", times):
            assert timestamp > previous
            previous = timestamp
            assert last_offsets[segment.base_offset + relative].max_timestamp == timestamp
    return entries


def test_index_files_are_what_kafka_expects(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=8000, index_interval_bytes=300))
    for number in range(300):
        log.append_as_leader(batch(1 + number % 3, timestamp=START_MS + number * 7 % 500), 0)
    log.active.indexes().write()
    assert check_index_files(log) > 50


def test_a_follower_indexes_every_batch_of_an_append(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "a", settings(index_interval_bytes=200))
    for number in range(50):
        leader.append_as_leader(batch(2, timestamp=START_MS + number), 1)
    follower = new_log(tmp_path / "b", settings(index_interval_bytes=200, segment_bytes=3000))
    follower.append_as_follower(leader.read(0, 1 << 20, leader.end_offset, min_one_batch=True))
    follower.active.indexes().write()
    assert all_offsets(follower) == all_offsets(leader)
    assert follower.epochs.entries() == leader.epochs.entries()
    assert len(follower.segments) > 1
    assert check_index_files(follower) > 10


def test_a_follower_refuses_damaged_and_backward_batches_and_keeps_its_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    good = records.build_batch([records.Record(b"k", b"v", START_MS)], base_offset=10)
    log.append_as_follower(memoryview(good))
    assert log.end_offset == 11
    damaged = bytearray(good)
    damaged[0:8] = (11).to_bytes(8, "big")
    damaged[-1] ^= 1
    for data in (bytes(damaged), good):
        with pytest.raises(KafkaError) as raised:
            log.append_as_follower(memoryview(data))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 11


def test_a_cut_batch_at_the_end_of_a_fetch_is_left_for_the_next_one(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    one = records.build_batch([records.Record(b"k", b"v", START_MS)], base_offset=0)
    two = records.build_batch([records.Record(b"k", b"v", START_MS)], base_offset=1)
    log.append_as_follower(memoryview(one + two[:-3]))
    assert (log.end_offset, log.size) == (1, len(one))


def test_truncation_cuts_segments_indexes_epochs_and_marks(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=500))
    for number in range(20):
        log.append_as_leader(batch(2), leader_epoch=number // 5)
    log.set_high_watermark(40)
    log.recovery_point = 40
    removed = log.truncate_to(13)
    assert log.end_offset == 12  # 13 is inside the batch 12-13
    assert all_offsets(log) == list(range(12))
    assert (log.high_watermark, log.recovery_point) == (12, 12)
    assert log.epochs.entries() == [(0, 0), (1, 10)]
    assert removed and all(path.name.endswith(".deleted") for path in removed)
    log.append_as_leader(batch(2), leader_epoch=9)
    assert all_offsets(log) == list(range(14))
    assert log.epochs.entries() == [(0, 0), (1, 10), (9, 12)]


def test_a_truncation_at_the_end_still_forgets_the_epoch_of_a_leader_that_wrote_nothing(
    tmp_path: Path,
) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(3), 4)
    log.assign_epoch_start(5)
    assert log.epochs.entries() == [(4, 0), (5, 3)]
    assert log.truncate_to(3) == []
    assert (log.end_offset, log.epochs.entries()) == (3, [(4, 0)])


def test_full_truncation_starts_anywhere(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(5), 1)
    log.truncate_fully_and_start_at(100)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (100, 100, 100)
    assert log.epochs.entries() == []
    log.append_as_leader(batch(), 2)
    assert all_offsets(log) == [100]


def test_offsets_by_timestamp(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=600, index_interval_bytes=100))
    for number in range(30):
        log.append_as_leader(batch(2, timestamp=START_MS + number * 100, step_ms=10), 3)
    found = found_by(search_at_or_after(log, START_MS + 505))
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (11, START_MS + 510, 3)
    first = found_by(search_at_or_after(log, 0))
    assert first is not None and first.offset == 0
    assert found_by(search_at_or_after(log, START_MS + 10_000)) is None
    newest = found_by(search_max_timestamp(log))
    assert newest is not None and (newest.offset, newest.timestamp) == (59, START_MS + 2910)
    log.set_high_watermark(60)
    log.advance_start_offset(21)
    first = found_by(search_at_or_after(log, 0))
    assert first is not None and first.offset == 21


@pytest.mark.parametrize("segment_bytes", [500, 1 << 20])
def test_the_largest_timestamp_of_what_is_left(tmp_path: Path, segment_bytes: int) -> None:
    """Of every beginning that DeleteRecords can leave, in one segment and in several."""
    log = new_log(tmp_path, settings(segment_bytes=segment_bytes, index_interval_bytes=1))
    times = [START_MS + (number * 37) % 101 for number in range(60)]
    for number in range(0, 60, 3):
        items = [records.Record(b"k", b"v" * 20, time_ms) for time_ms in times[number : number + 3]]
        log.append_as_leader(memoryview(bytearray(records.build_batch(items))), 0)
    log.set_high_watermark(60)
    for start in range(60):
        log.advance_start_offset(start)
        largest = max(times[start:])
        found = found_by(search_max_timestamp(log))
        assert found is not None and found.timestamp == largest
        assert found.offset == times.index(largest, start)
    log.advance_start_offset(60)
    assert found_by(search_max_timestamp(log)) is None


def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    open_files = OpenFiles(3)
    logs = []
    for number in range(12):
        folder = tmp_path / str(number)
        logs.append(new_log(folder, settings(segment_bytes=400), open_files=open_files))
    for _ in range(4):
        for log in logs:
            log.append_as_leader(batch(2), 0)
            assert len(open_files) <= 3
    for log in logs:
        assert all_offsets(log) == list(range(8))


def test_an_append_that_failed_half_way_leaves_no_hole(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(2), 0)
    with log.active.path(".log").open("ab") as file:
        file.write(b"half a batch")
    log.active.release()
    log.append_as_leader(batch(2), 0)
    assert all_offsets(log) == [0, 1, 2, 3]


def test_the_clock_decides_where_records_carry_no_time(tmp_path: Path) -> None:
    clock = ManualClock()
    log = new_log(tmp_path, settings(segment_ms=1000), clock=clock)
    log.append_as_leader(batch(timestamp=-1, step_ms=0), 0)
    clock.ms += 1001
    log.append_as_leader(batch(timestamp=-1, step_ms=0), 0)
    assert len(log.segments) == 2


def test_each_segment_begins_with_a_snapshot_also_after_a_gap(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=200))
    for base_offset in (0, 10, 25):
        items = [records.Record(b"k", b"v" * 80, START_MS)]
        log.append_as_follower(memoryview(records.build_batch(items, base_offset=base_offset)))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 11]
    snapshots = sorted(path.name for path in log.folder.glob("*.snapshot"))
    assert snapshots == ["00000000000000000001.snapshot", "00000000000000000011.snapshot"]
    # An offset index has no room for more than this.
    far = log.end_offset + MAX_RELATIVE_OFFSET + 1
    log.append_as_follower(memoryview(records.build_batch(items, base_offset=far)))
    assert log.active.base_offset == far
