"""Files that are not what a broker wrote: nothing is lost or shown wrong for their sake."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.errors import KafkaError
from ottla.runtime import Runtime, SystemDisk, SystemNetwork
from ottla.storage import checkpoints
from ottla.storage.log import retention
from ottla.storage.log.log import Log
from ottla.storage.log.lookup import search_at_or_after
from ottla.storage.log.recovery import load_log
from ottla.storage.segment.open_files import OpenFiles
from tests.support.storage.cleaner_helpers import Rig
from tests.support.storage.log_helpers import (
    START_MS,
    ManualClock,
    all_offsets,
    batch,
    found_by,
    new_log,
    offsets_in,
    reopen,
    settings,
)

DAY_MS = 86_400_000


def filled(path: Path) -> Log:
    """Three segments of twenty batches with a record each, as a clean stop leaves them."""
    log = new_log(path, settings(segment_bytes=1810, index_interval_bytes=200))
    for number in range(60):
        log.append_as_leader(batch(timestamp=START_MS + number, producer=(7, 0, number)), 1)
    assert [segment.base_offset for segment in log.segments] == [0, 20, 40]
    log.set_high_watermark(60)
    log.active.indexes().write()
    log.write_snapshot()
    log.side_files.write_epochs(log.epochs)
    log.release()
    return log


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def shifted(path: Path) -> None:
    """Each entry but the last one points at the next one's place."""
    data = bytearray(path.read_bytes())
    for at in range(4, len(data) - 12, 8):
        data[at : at + 4] = data[at + 8 : at + 12]
    path.write_bytes(data)


def in_a_batch(path: Path) -> None:
    """An entry in the middle points into a batch."""
    data = bytearray(path.read_bytes())
    data[15] += 1
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def of_the_next_segment(path: Path) -> None:
    data = path.with_name(path.name.replace("000.", "020.")).read_bytes()
    path.write_bytes(data[: len(data) // 2 // 24 * 24])


@pytest.mark.parametrize("damage", [zeroed, emptied, shifted, in_a_batch])
def test_a_wrong_offset_index_hides_no_record(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path)
    index = log.segments[0].path(".index")
    sound = index.read_bytes()
    damage(index)
    assert index.read_bytes() != sound
    again = reopen(log, clean=True)
    for offset in range(60):
        data = again.read(offset, 1, 60, min_one_batch=True)
        assert offsets_in(data) == [offset]
    assert index.read_bytes() == sound
    assert [line for line in caplog.messages if "made again" in line] == caplog.messages != []


@pytest.mark.parametrize("damage", [zeroed, emptied, cut_short, of_the_next_segment])
def test_a_wrong_time_index_deletes_nothing(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path)
    log.use_settings(settings(segment_bytes=1810, index_interval_bytes=200, retention_ms=1000))
    times = log.segments[0].path(".timeindex")
    sound = times.read_bytes()
    damage(times)
    again = reopen(log, clean=True)
    assert retention.deletable_segments(again, START_MS + 100) == 0
    assert again.segments[0].largest_timestamp() == START_MS + 19
    found = found_by(search_at_or_after(again, START_MS + 12))
    assert found is not None and found.offset == 12
    assert times.read_bytes() == sound and "made again" in caplog.text


def test_behind_a_damaged_batch_the_index_still_leads(tmp_path: Path) -> None:
    log = filled(tmp_path)
    first = log.segments[0]
    with first.path(".log").open("r+b") as file:
        file.seek(10 * (first.size // 20))
        file.write(bytes(61))
    again = reopen(log, clean=True, recovery_point=60)
    for _ in range(2):
        with pytest.raises(KafkaError):
            again.read(10, 1, 60, min_one_batch=True)
        assert offsets_in(again.read(19, 1, 60, min_one_batch=True)) == [19]


@pytest.mark.parametrize("tail", ["cut", "zeros", "garbage"])
def test_a_tail_damaged_after_a_clean_stop_costs_that_tail_alone(tmp_path: Path, tail: str) -> None:
    log = filled(tmp_path)
    path = log.active.path(".log")
    data = path.read_bytes()
    path.write_bytes(
        data[:-7] if tail == "cut" else data + (b"\0" if tail == "zeros" else b"?!") * 99
    )
    again = reopen(log, clean=True, recovery_point=60)
    end = 59 if tail == "cut" else 60
    assert all_offsets(again) == list(range(end))
    # A snapshot behind the end would speak for records that take those offsets later.
    assert not (log.folder / f"{60:020d}.snapshot").exists() or end == 60
    again.append_as_leader(batch(), 2)
    assert all_offsets(again) == list(range(end + 1))


@pytest.mark.parametrize("content", ["", "0\n1\n", "0\n2\n1 0\n1 7\n", "\0" * 12, "0\n1\n1 1e9\n"])
def test_damaged_leader_epochs_are_read_from_the_log(tmp_path: Path, content: str) -> None:
    log = filled(tmp_path)
    log.append_as_leader(batch(), 4)
    (log.folder / checkpoints.LEADER_EPOCHS).write_text(content)
    if content:
        assert reopen(log, clean=True).epochs.entries() == [(1, 0), (4, 60)]
    else:
        assert reopen(log, clean=False).epochs.entries() == [(1, 0), (4, 60)]


@pytest.mark.parametrize("clean", [True, False])
def test_an_old_record_after_a_restart_does_not_age_the_segment(
    tmp_path: Path, clean: bool
) -> None:
    """Retention would delete the newer ones with it."""
    log = filled(tmp_path)
    log.use_settings(settings(retention_ms=DAY_MS))
    again = reopen(log, clean=clean)
    again.append_as_leader(batch(timestamp=START_MS - 9 * DAY_MS), 1)
    again.set_high_watermark(61)
    assert again.active.largest_timestamp() == START_MS + 59
    assert retention.deletable_segments(again, START_MS + 1000) == 0


def test_an_epoch_without_records_does_not_move_the_start_of_the_one_before(tmp_path: Path) -> None:
    """A follower would be told a wrong end of epoch 0 and keep records that nobody else has."""
    log = new_log(tmp_path, settings(segment_bytes=1810))
    for number in range(60):
        log.append_as_leader(batch(), 0 if number < 10 else 1)
    log.assign_epoch_start(2)
    log.side_files.write_epochs(log.epochs)
    again = reopen(log, recovery_point=60)
    assert again.epochs.entries() == [(0, 0), (1, 10)]


def test_a_recovery_point_behind_the_end_says_nothing(tmp_path: Path) -> None:
    """The log was cut and went on in a new epoch; neither that nor the epochs were written yet."""
    log = new_log(tmp_path, settings(segment_bytes=1810))
    for number in range(60):
        log.append_as_leader(batch(), 0 if number < 15 else 1)
    log.side_files.write_epochs(log.epochs)
    log.truncate_to(10)
    for _ in range(35):
        log.append_as_leader(batch(), 2)
    assert len(log.segments) > 1
    again = reopen(log, recovery_point=60)
    assert again.epochs.entries() == [(0, 0), (2, 10)]
    assert again.recovery_point == 0 and again.end_offset == 45


def test_without_snapshots_a_damaged_segment_keeps_no_log_from_loading(tmp_path: Path) -> None:
    log = filled(tmp_path)
    snapshots = list(log.folder.glob("*.snapshot"))
    assert snapshots
    for snapshot in snapshots:
        snapshot.unlink()
    with log.segments[0].path(".log").open("r+b") as file:
        file.seek(5 * log.segments[0].size // 20)
        file.write(bytes(61))
    again = reopen(log, recovery_point=60)
    assert again.end_offset == 60
    producer = again.producers.get(7)
    assert producer is not None and producer.batches[-1].last_sequence == 59


class _Killed(BaseException):
    pass


class _MortalDisk(SystemDisk):
    """Dies at one of its renames."""

    left = -1

    def rename(self, source: Path, target: Path) -> None:
        if self.left == 0:
            raise _Killed
        self.left -= 1
        super().rename(source, target)


@pytest.mark.parametrize("done", range(8))
def test_a_truncation_that_was_killed_leaves_no_hole(tmp_path: Path, done: int) -> None:
    log = filled(tmp_path)
    disk = _MortalDisk()
    doomed = load_log(
        Runtime(ManualClock(), random.Random(1), SystemNetwork(), disk),
        OpenFiles(9),
        log.tp,
        log.folder,
        log.settings,
        clean=True,
        recovery_point=60,
        start_offset=0,
        high_watermark=60,
    )
    disk.left = done
    with contextlib.suppress(_Killed):
        doomed.truncate_to(7)
    again = reopen(log, recovery_point=60)
    assert again.end_offset in (7, 20, 40, 60)
    assert all_offsets(again) == list(range(again.end_offset))


def test_strange_names_in_a_partition_folder_are_left_alone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for name in ("5.log", "notes.log", "7.snapshot", "x.log.swap", "²" * 20 + ".log"):
        (log.folder / name).write_text("?")
    (log.folder / "backup.deleted").mkdir()
    again = reopen(log)
    assert all_offsets(again) == list(range(60))
    assert (log.folder / "notes.log").exists()


@pytest.mark.parametrize("originals_are_there", [True, False])
def test_a_damaged_swap_file_costs_as_little_as_it_can(
    tmp_path: Path, originals_are_there: bool
) -> None:
    log = filled(tmp_path)
    first = log.segments[0].path(".log")
    swap = first.with_name(first.name + ".swap")
    data = first.read_bytes()
    swap.write_bytes(data[: len(data) // 2 + 5])
    if not originals_are_there:
        first.unlink()
    again = reopen(log, clean=True, recovery_point=60)
    kept = range(20) if originals_are_there else range(10)
    assert all_offsets(again) == [*kept, *range(20, 60)]
    assert not swap.exists()


async def test_a_truncation_while_keys_are_mapped_ends_the_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The segments are not looked for where they were: nothing is made there by accident."""
    caplog.set_level(logging.INFO)
    rig = Rig(tmp_path)
    for number in range(40):
        rig.append([(b"k%d" % (number % 3), b"v" * 50)])
    rig.seal()
    run = rig.cleaner._run
    base = rig.log.segments[2].base_offset

    async def cut_after_the_first(steps: object) -> None:
        await run(steps)  # type: ignore[arg-type]
        if rig.log.generation == 0:
            rig.log.truncate_to(base)

    rig.cleaner._run = cut_after_the_first  # type: ignore[method-assign]
    assert await rig.cleaner.clean_next() is None
    assert "given up" in caplog.text and rig.failures == []
    assert [name for name in rig.names(".log") if name.endswith(".log")] == [
        f"{segment.base_offset:020d}.log" for segment in rig.log.segments
    ]
