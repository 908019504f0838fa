from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.runtime import DirInUse, File, SystemDisk
from ottla.storage import checkpoints
from ottla.storage.log.small_logs import SMALL_LOG_BYTES
from ottla.storage.manager.folder_names import deletion_name, is_deletion_name
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import ManualClock, all_offsets, batch
from tests.support.storage.log_managers import TOPIC_ID, manager

A, B, C = TopicPartition("a", 0), TopicPartition("b.c-d", 1), TopicPartition("c", 2)


def matching(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


async def test_a_clean_stop_is_marked_and_loaded_without_recovery(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(5, value=b"v" * SMALL_LOG_BYTES), 2)
    log.set_high_watermark(4)
    await logs.checkpoints.write_high_watermarks()
    await logs.shutdown()
    assert (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    assert (tmp_path / checkpoints.RECOVERY_POINTS).read_text() == "0\n1\na 0 5\n"
    assert (tmp_path / checkpoints.HIGH_WATERMARKS).read_text() == "0\n1\na 0 4\n"
    assert (tmp_path / "a-0" / checkpoints.LEADER_EPOCHS).read_text() == "0\n1\n2 0\n"
    assert (tmp_path / "a-0" / "00000000000000000005.snapshot").exists()
    assert (tmp_path / "a-0" / "00000000000000000000.index").exists()

    again = manager(tmp_path)
    await again.start()
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    loaded = again.get(A)
    assert loaded is not None
    assert (loaded.end_offset, loaded.high_watermark, loaded.topic_id) == (5, 4, TOPIC_ID)
    assert loaded.epochs.entries() == [(2, 0)]
    await again.shutdown()


async def test_without_the_marker_the_tail_is_recovered(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A)
    log.append_as_leader(batch(2), 0)
    log.append_as_leader(batch(2), 0)
    await logs.shutdown()
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).unlink()
    path = tmp_path / "a-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = manager(tmp_path)
    await again.start()
    loaded = again.get(A)
    assert loaded is not None and all_offsets(loaded) == [0, 1]
    await again.shutdown()


async def test_new_logs_go_where_fewest_are(tmp_path: Path) -> None:
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    for number in range(6):
        logs.get_or_create(TopicPartition("t", number))
    assert len(list((tmp_path / "x").glob("t-*"))) == len(list((tmp_path / "y").glob("t-*"))) == 3
    await logs.shutdown()


async def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock)
    await logs.start()
    logs.get_or_create(B).append_as_leader(batch(), 0)
    logs.delete(B)
    assert logs.get(B) is None
    (renamed,) = matching(tmp_path, "*-delete")
    assert is_deletion_name(renamed.name) and renamed.name.startswith("b.c-d-1.")
    assert logs.get_or_create(B).end_offset == 0
    await logs.removals.remove_due()
    assert renamed.exists()
    clock.ms += 60_000
    await logs.removals.remove_due()
    assert not renamed.exists()
    await logs.shutdown()


@pytest.mark.parametrize("killed_between", [False, True])
async def test_checkpoints_of_a_deleted_log_do_not_hold_for_the_next_of_its_name(
    tmp_path: Path, killed_between: bool
) -> None:
    """They would hide its records, or say that it was flushed."""
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(100), 0)
    log.set_high_watermark(100)
    log.advance_start_offset(90)
    await logs.flusher.flush(log)
    await logs.checkpoints.write_high_watermarks()
    await logs.checkpoints.write_offsets()
    logs.delete(A)
    if killed_between:
        kill(logs)
        logs = manager(tmp_path)
        await logs.start()
    log = logs.get_or_create(A, topic_id=bytes(reversed(TOPIC_ID)))
    log.append_as_leader(batch(10), 0)
    kill(logs)
    logs = manager(tmp_path)
    await logs.start()
    again = logs.get(A)
    assert again is not None and all_offsets(again) == list(range(10))
    assert again.high_watermark == 0
    await logs.shutdown()


def kill(logs: LogManager) -> None:
    """Leaves everything as it is; the locks go with a process."""
    for task in logs._tasks._running:
        task.cancel()
    logs.dirs.release_locks()


async def test_a_deletion_cut_short_is_finished_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / deletion_name(A, "f" * 32)).mkdir()
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock)
    await logs.start()
    assert list(logs.logs()) == []
    clock.ms += 60_000
    await logs.removals.remove_due()
    assert not matching(tmp_path, "*-delete")
    await logs.shutdown()


async def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Locks are per process, so the other holder is made by hand."""
    logs = manager(tmp_path)

    def taken(folder: Path) -> None:
        raise DirInUse(folder)

    logs._lock_dir = taken  # type: ignore[assignment]
    with pytest.raises(DirInUse, match=r"Failed to acquire lock on file \.lock"):
        await logs.start()


async def test_of_two_logs_that_a_move_left_the_longer_one_stays(tmp_path: Path) -> None:
    """Killed after the copy got its name, before the log was set aside; then that was repeated."""
    logs = manager(tmp_path / "x")
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(3), 1)
    await logs.shutdown()
    shutil.copytree(tmp_path / "x" / "a-0", tmp_path / "y" / "a-0")
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    kept = logs.get(A)
    assert kept is not None and all_offsets(kept) == [0, 1, 2]
    assert len(matching(tmp_path, "*/a-0")) == len(matching(tmp_path, "*/a-0.*-delete")) == 1
    kept.append_as_leader(batch(3), 2)
    other = kept.data_dir
    await logs.shutdown()
    [spare] = matching(tmp_path, "*/a-0.*-delete")
    spare.rename(spare.parent / "a-0")
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    kept = logs.get(A)
    assert kept is not None and kept.data_dir == other and kept.end_offset == 6
    await logs.shutdown()


async def test_two_logs_that_each_may_be_needed_stop_the_start(tmp_path: Path) -> None:
    for name, epoch, count in (("x", 1, 5), ("y", 2, 3)):
        logs = manager(tmp_path / name)
        await logs.start()
        logs.get_or_create(A, topic_id=TOPIC_ID).append_as_leader(batch(count), epoch)
        await logs.shutdown()
    for _ in range(2):
        with pytest.raises(OttlaError, match="Duplicate log directories for a-0"):
            await manager(tmp_path / "x", tmp_path / "y").start()
    assert len(matching(tmp_path, "*/a-0")) == 2


async def test_strange_folders_are_told_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What `a/b`, a line feed in a name and a person's backup leave behind."""
    strange = ("not a partition", "a", "x\ny-0", "t-03", f"{'n' * 250}-0")
    for name in strange:
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "b-0").mkdir()
    for _ in range(2):
        logs = manager(tmp_path)
        await logs.start()
        logs.get_or_create(A)
        assert [log.tp for log in logs.logs()] == [A]
        await logs.shutdown()
    told = [record.getMessage() for record in caplog.records]
    for name in strange:
        assert sum(f"'{name}' is not in the form of topic-partition" in line for line in told) == 2
        assert (tmp_path / name).is_dir()


class ShortNames(SystemDisk):
    """A file system for names of at most 60 characters (eCryptfs takes 143)."""

    def make_dirs(self, path: Path) -> None:
        if len(path.name) > 60:
            raise OSError(errno.ENAMETOOLONG, "File name too long", str(path))
        super().make_dirs(path)


async def test_a_name_fails_no_folder(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    logs = manager(*folders, disk=ShortNames())
    await logs.start()
    long = TopicPartition("l" * 80, 0)
    impossible = [
        *(TopicPartition(name, 0) for name in ("../../x", "a/b", "x\ny", "n" * 300, "", "..")),
        TopicPartition("t", -1),
        TopicPartition("t", 2**31),
        TopicPartition("n" * 249, 100_000),
        long,
    ]
    for tp in impossible:
        with pytest.raises(KafkaError) as raised:
            logs.get_or_create(tp)
        expected = (
            ErrorCode.INVALID_REQUEST if tp.topic == "t" else (ErrorCode.INVALID_TOPIC_EXCEPTION)
        )
        assert raised.value.code is expected, tp
    await logs.create_ahead(
        {tp: TOPIC_ID for tp in impossible if tp != long}
        | {TopicPartition("many", number): TOPIC_ID for number in range(100)}
    )
    assert len(list(logs.logs())) == 100
    # The name of a copy is 40 characters longer.
    middle = TopicPartition("m" * 50, 0)
    log = logs.get_or_create(middle)
    with pytest.raises(KafkaError):
        logs.create_future(middle, next(path for path in folders if path != log.data_dir))
    assert logs.dirs.online() == list(folders)
    await logs.shutdown()
    assert sorted(matching(tmp_path, "*")) == sorted(folders)


class FailingDisk(SystemDisk):
    """Below `broken` nothing can be opened or made."""

    def __init__(self) -> None:
        self.broken: Path | None = None

    def open(self, path: Path, *, create: bool = True) -> File:
        if self.broken is not None and self.broken in path.parents:
            raise OSError(5, "Input/output error")
        return super().open(path, create=create)

    def make_dirs(self, path: Path) -> None:
        if self.broken is not None and self.broken in path.parents:
            raise OSError(5, "Input/output error")
        super().make_dirs(path)


async def test_a_failing_folder_goes_offline_and_the_others_go_on(tmp_path: Path) -> None:
    disk = FailingDisk()
    logs = manager(tmp_path / "x", tmp_path / "y", disk=disk)
    await logs.start()
    lost: list[list[TopicPartition]] = []
    logs.dirs.add_failure_listener(lambda _, partitions: lost.append(partitions))
    first = logs.get_or_create(A)
    disk.broken = first.data_dir
    other = logs.get_or_create(B)
    assert other.data_dir != first.data_dir and lost == []
    third = logs.get_or_create(C)  # the least loaded folder fails, so the other one is taken
    assert third.data_dir == other.data_dir
    assert lost == [[A]] and logs.get(A) is None
    assert logs.dirs.offline() == [first.data_dir]
    with pytest.raises(KafkaError) as raised:
        logs.get_or_create(A, is_new=False)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_or_create(A, is_new=True).data_dir == other.data_dir
    await logs.shutdown()
    assert not (first.data_dir / checkpoints.CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("text", ["0\n2\na 0 1\n", "\0" * 9, f"0\n1\na 0 {1 << 63}\n"])
async def test_a_broker_starts_with_damaged_checkpoints(tmp_path: Path, text: str) -> None:
    logs = manager(tmp_path, segment_bytes=500)
    await logs.start()
    log = logs.get_or_create(A)
    for _ in range(20):
        log.append_as_leader(batch(), 0)
    await logs.shutdown()
    names = (
        *(checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS),
        *(checkpoints.LOG_STARTS, checkpoints.CLEANED),
    )
    for name in names:
        (tmp_path / name).write_text(text)
    logs = manager(tmp_path, segment_bytes=500)
    await logs.start()
    again = logs.get(A)
    assert again is not None and all_offsets(again) == list(range(20))
    assert again.high_watermark == 0 and not logs.dirs.offline()
    await logs.shutdown()


async def test_many_logs_are_created_ahead_and_spread(tmp_path: Path) -> None:
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    wanted = {TopicPartition("t", number): TOPIC_ID for number in range(150)}
    await logs.create_ahead(dict.fromkeys(list(wanted)[:3], TOPIC_ID))
    assert list(logs.logs()) == [], "a few are made when they are needed"
    await logs.create_ahead(wanted)
    assert {log.tp for log in logs.logs()} == set(wanted)
    assert len(matching(tmp_path / "x", "t-*")) == len(matching(tmp_path / "y", "t-*")) == 75
    log = logs.get_or_create(TopicPartition("t", 7))
    assert log.topic_id == TOPIC_ID and log.append_as_leader(batch(), 0).first_offset == 0
    await logs.create_ahead(wanted)
    assert logs.get(TopicPartition("t", 7)) is log
    await logs.shutdown()


class BreaksHalfWay(SystemDisk):
    """Folders can be made until so many are there."""

    left = 120

    def make_dirs(self, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")
        super().make_dirs(path)


async def test_logs_are_counted_without_a_look_at_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BreaksHalfWay()
    logs = manager(tmp_path / "x", tmp_path / "y", disk=disk)
    await logs.start()
    first = logs.get_or_create(A, topic_id=TOPIC_ID)
    monkeypatch.setattr(LogTable, "logs_in", lambda *_: pytest.fail("a walk over all logs"))
    wanted = {TopicPartition("t", number): TOPIC_ID for number in range(150)}
    await logs.create_ahead(wanted)
    made = len(list(logs.logs()))
    assert 100 < made < 130
    disk.left = 1000
    await logs.create_ahead(wanted | {TopicPartition("u", n): TOPIC_ID for n in range(101)})
    monkeypatch.undo()
    for data_dir in logs.dirs:
        assert data_dir.log_count == len(logs._table.logs_in(data_dir.path)) == 126
    assert first.data_dir.parent == tmp_path
    await logs.shutdown()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_all_logs_share_the_name_of_their_data_folder(
    tmp_path: Path, is_killed: bool
) -> None:
    """A comparison of two such objects costs as much as all else that a walk does."""
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    for tp in (A, B, C):
        logs.get_or_create(tp)
    await logs.create_ahead({TopicPartition("t", number): TOPIC_ID for number in range(150)})
    assert len({id(log.data_dir) for log in logs.logs()}) == 2
    if is_killed:
        await logs._tasks.cancel()
        logs.dirs.release_locks()
    else:
        await logs.shutdown()
    logs = manager(tmp_path / "x", tmp_path / "y")
    await logs.start()
    assert len({id(log.data_dir) for log in logs.logs()}) == 2
    await logs.shutdown()
