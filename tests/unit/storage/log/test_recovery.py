from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.log.lookup import search_at_or_after
from ottla.wire import records
from tests.support.storage.log_helpers import (
    START_MS,
    all_offsets,
    batch,
    found_by,
    new_log,
    reopen,
    settings,
)


def filled(tmp_path: Path, **changes: object) -> Log:
    log = new_log(tmp_path, settings(segment_bytes=1000, index_interval_bytes=150, **changes))
    for number in range(30):
        log.append_as_leader(
            batch(2, timestamp=START_MS + number, producer=(7, 0, number * 2)), number // 10
        )
    log.set_high_watermark(log.end_offset)
    return log


def test_everything_is_there_after_a_crash_without_damage(tmp_path: Path) -> None:
    log = filled(tmp_path)
    again = reopen(log)
    assert all_offsets(again) == list(range(60))
    assert again.epochs.entries() == log.epochs.entries() == [(0, 0), (1, 20), (2, 40)]
    producer = again.producers.get(7)
    assert producer is not None and producer.last_sequence == 59
    assert again.append_as_leader(batch(2, producer=(7, 0, 58)), 2).duplicate


@pytest.mark.parametrize("cut", [1, 30, 70, 100])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(tmp_path: Path, cut: int) -> None:
    log = filled(tmp_path)
    path = log.active.path(".log")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - cut)
    again = reopen(log)
    assert again.end_offset == 58
    assert all_offsets(again) == list(range(again.end_offset))
    again.append_as_leader(batch(2, producer=(8, 0, 0)), 5)
    assert all_offsets(again) == list(range(again.end_offset))


def test_garbage_in_the_middle_ends_the_log_there(tmp_path: Path) -> None:
    log = filled(tmp_path)
    victim = log.segments[1]
    found = victim.locate(victim.base_offset + 4)
    assert found is not None
    with victim.path(".log").open("r+b") as file:
        file.seek(found[0] + 70)
        file.write(b"\xff\xff")
    again = reopen(log)
    assert again.end_offset == victim.base_offset + 4
    assert [segment.base_offset for segment in again.segments] == [0, victim.base_offset]
    assert all_offsets(again) == list(range(again.end_offset))
    names = {path.name for path in log.folder.iterdir()}
    assert not any(name.endswith(".deleted") for name in names)
    assert sum(name.endswith(".log") for name in names) == 2


def test_gaps_in_what_a_compacted_leader_sent_are_no_holes(tmp_path: Path) -> None:
    """Of a topic that is not compacted any more, on a replica that never compacted it itself."""
    log = new_log(tmp_path, settings(segment_bytes=200))
    for offset in range(5, 95, 10):
        items = [records.Record(b"k", b"v" * 30, START_MS)]
        built = records.build_batch(items, base_offset=offset, leader_epoch=0)
        log.append_as_follower(memoryview(bytearray(built)))
    log.set_high_watermark(log.end_offset)
    assert len(log.segments) > 3
    assert all_offsets(reopen(log)) == list(range(5, 95, 10))


@pytest.mark.parametrize("left", ["nothing", "half", "no file"])
def test_a_segment_that_lost_its_end_ends_the_log(tmp_path: Path, left: str) -> None:
    """A power cut may take what was written to one file and leave what was written to the next."""
    log = filled(tmp_path)
    victim = log.segments[1]
    if left == "no file":
        victim.path(".log").unlink()
        end = victim.base_offset
    else:
        end = victim.base_offset + (4 if left == "half" else 0)
        found = victim.locate(end)
        assert found is not None
        with victim.path(".log").open("r+b") as file:
            file.truncate(found[0])
    again = reopen(log)
    assert all_offsets(again) == list(range(end))
    assert again.end_offset == end
    again.append_as_leader(batch(2), 5)
    assert all_offsets(again) == list(range(end + 2))


def test_a_compacted_log_may_have_gaps_between_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy=frozenset({"compact"}))
    victim = log.segments[1]
    lost = range(victim.base_offset, log.segments[2].base_offset)
    with victim.path(".log").open("r+b") as file:
        file.truncate(0)
    assert all_offsets(reopen(log)) == [n for n in range(60) if n not in lost]


def test_segments_before_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with log.segments[0].path(".log").open("r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff")
    again = reopen(log, recovery_point=log.active.base_offset)
    assert again.end_offset == 60


def test_zeros_after_a_power_loss_are_cut(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with log.active.path(".log").open("ab") as file:
        file.write(bytes(500))
    assert reopen(log).end_offset == 60


@pytest.mark.parametrize("damage", ["missing", "odd size", "beyond the log", "backwards"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: str) -> None:
    log = filled(tmp_path)
    log.active.indexes().write()
    log.release()
    for segment in log.segments:
        index, times = segment.path(".index"), segment.path(".timeindex")
        if damage == "missing":
            index.unlink()
            times.unlink()
        elif damage == "odd size":
            index.write_bytes(index.read_bytes() + b"x")
        elif damage == "beyond the log":
            index.write_bytes((5).to_bytes(4, "big") + (1 << 30).to_bytes(4, "big"))
        else:
            times.write_bytes(times.read_bytes() * 2)
    again = reopen(log, clean=True)
    assert all_offsets(again) == list(range(60))
    found = found_by(search_at_or_after(again, START_MS + 12))
    assert found is not None and found.offset == 23


def test_a_preallocated_index_of_kafka_is_read(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.active.indexes().write()
    for suffix in (".index", ".timeindex"):
        path = log.active.path(suffix)
        path.write_bytes(path.read_bytes() + bytes(24 * 10))
    assert all_offsets(reopen(log, clean=True)) == list(range(60))


def test_a_clean_log_is_loaded_without_reading_old_segments(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.active.indexes().write()
    log.side_files.write_epochs(log.epochs)
    log.write_snapshot()
    for segment in log.segments[:-1]:
        segment.path(".log").write_bytes(bytes(segment.size))
    again = reopen(log, clean=True)
    assert again.end_offset == 60
    assert again.epochs.entries() == [(0, 0), (1, 20), (2, 40)]
    producer = again.producers.get(7)
    assert producer is not None and producer.last_sequence == 59


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_of_a_producer_are_known_after_a_restart(
    tmp_path: Path, clean: bool
) -> None:
    log = filled(tmp_path)
    log.active.indexes().write()
    log.side_files.write_epochs(log.epochs)
    log.write_snapshot()
    again = reopen(log, clean=clean, recovery_point=60)
    for sequence in (50, 52, 54, 56, 58):
        info = again.append_as_leader(batch(2, producer=(7, 0, sequence)), 2)
        assert (info.duplicate, info.first_offset) == (True, sequence)
    with pytest.raises(KafkaError) as refused:
        again.append_as_leader(batch(2, producer=(7, 0, 48)), 2)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_another_epoch_are_not_recalled(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for epoch, sequence in ((0, 0), (1, 0), (1, 1)):
        log.append_as_leader(batch(producer=(7, epoch, sequence)), 0)
    log.active.indexes().write()
    log.write_snapshot()
    producer = reopen(log, clean=True).producers.get(7)
    assert producer is not None
    assert [(b.first_sequence, b.base_offset) for b in producer.batches] == [(0, 1), (1, 2)]


def test_a_damaged_snapshot_gives_way_to_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.write_snapshot()
    newest = max(path for path in log.folder.iterdir() if path.suffix == ".snapshot")
    newest.write_bytes(newest.read_bytes()[:-1])
    again = reopen(log, clean=False, recovery_point=60)
    producer = again.producers.get(7)
    assert producer is not None and producer.last_sequence == 59


def test_a_log_that_ends_before_its_start_begins_anew(tmp_path: Path) -> None:
    log = filled(tmp_path)
    again = reopen(log, start=100)
    assert (again.start_offset, again.end_offset) == (100, 100)
    assert again.append_as_leader(batch(), 5).first_offset == 100


def test_the_start_offset_hides_records(tmp_path: Path) -> None:
    log = filled(tmp_path)
    again = reopen(log, start=25)
    assert again.start_offset == 25
    assert all_offsets(again) == list(range(25, 60))
    assert again.epochs.entries() == [(1, 25), (2, 40)]


def test_leftovers_of_deletion_and_compaction_are_cleared(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for name in ("x.log.deleted", "00000000000000000777.index", "00000000000000000000.log.cleaned"):
        (log.folder / name).write_bytes(b"junk")
    reopen(log)
    names = {path.name for path in log.folder.iterdir()}
    assert not names & {"x.log.deleted", "00000000000000000777.index"}
    assert not any(name.endswith(".cleaned") for name in names)


def test_an_interrupted_swap_of_kafkas_cleaner_is_completed(tmp_path: Path) -> None:
    """The originals are gone already; only the compacted `.swap` has the records."""
    log = filled(tmp_path)
    first, second = log.segments[0], log.segments[1]
    kept = records.build_batch(
        [records.Record(b"k", b"last", START_MS)],
        base_offset=second.base_offset,
        leader_epoch=0,
        last_offset_delta=log.segments[2].base_offset - second.base_offset - 1,
    )
    (log.folder / (first.path(".log").name + ".swap")).write_bytes(kept)
    for segment in (first, second):
        segment.path(".log").rename(segment.path(".log").with_suffix(".log.deleted"))
    again = reopen(log, clean=True)
    assert again.segments[0].base_offset == 0
    assert again.segments[1].base_offset == log.segments[2].base_offset
    assert all_offsets(again)[0] == second.base_offset


def test_epochs_without_records_do_not_survive(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.assign_epoch_start(9)
    log.side_files.write_epochs(log.epochs)
    assert log.epochs.latest == 9
    assert reopen(log).epochs.latest == 2


def test_reading_a_damaged_place_is_answered_with_a_code(tmp_path: Path) -> None:
    log = filled(tmp_path)
    victim = log.segments[0]
    with victim.path(".log").open("r+b") as file:
        file.write(bytes(100))
    with pytest.raises(KafkaError) as raised:
        log.read(1, 1000, log.end_offset, min_one_batch=True)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
