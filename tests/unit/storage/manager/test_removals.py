"""Files and folders that wait for their removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.folder_names import is_deletion_name
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.removals import Removals
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.slices import RecordSlice
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import TP, ManualClock, batch, new_log, runtime, settings


async def test_files_go_when_their_delay_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    removals = Removals(runtime(clock), DataDirs(runtime(), [tmp_path], LogTable()), OpenFiles(4))
    log = new_log(tmp_path, settings(file_delete_delay_ms=50))
    paths = [tmp_path / "soon.deleted", tmp_path / "later.deleted"]
    for path in paths:
        path.touch()
    removals.add_files(log, paths[:1])
    removals.add(paths[1:], 100)
    for wait_ms, left in ((49, [True, True]), (50, [False, True]), (100, [False, False])):
        clock.ms += wait_ms
        await removals.remove_due()
        clock.ms -= wait_ms
        assert [path.exists() for path in paths] == left


async def test_a_doomed_log_is_renamed_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    removals = Removals(runtime(clock), dirs, OpenFiles(4))
    log = new_log(tmp_path)
    assert removals.doom(log) and set(dirs[tmp_path].gone) == {TP}
    assert is_deletion_name(log.folder.name) and log.folder.exists()
    assert not (tmp_path / str(TP)).exists()
    clock.ms += log.settings.file_delete_delay_ms
    await removals.remove_due()
    assert not log.folder.exists()


async def test_an_answer_under_way_does_not_keep_the_place_of_removed_files(
    tmp_path: Path,
) -> None:
    clock, files = ManualClock(), OpenFiles(4)
    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    removals = Removals(runtime(clock), dirs, files)
    log = new_log(tmp_path, open_files=files)
    log.append_as_leader(batch(1, value=bytes(5000)), leader_epoch=0)
    answer = log.read_or_slice(0, 1 << 20, 1, min_one_batch=True, sliced_from=1024)
    assert isinstance(answer, RecordSlice) and removals.doom(log) and len(files) == 0
    assert answer.read(0, 1 << 20), "the peer gets what it was promised"
    assert len(files) == 1
    clock.ms += log.settings.file_delete_delay_ms
    await removals.remove_due()
    assert len(files) == 0
    with pytest.raises(FileNotFoundError):
        answer.read(0, 1 << 20)


async def test_a_folder_that_cannot_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(disk: SystemDisk, source: Path, target: Path) -> None:
        raise OSError("read-only")

    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    log = new_log(tmp_path)
    monkeypatch.setattr(SystemDisk, "rename", refuse)
    assert not Removals(runtime(), dirs, OpenFiles(4)).doom(log)
    assert dirs.offline() == [tmp_path] and log.folder == tmp_path / str(TP)


async def test_a_removal_is_durable_once_per_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(SystemDisk, "sync_dir", lambda _disk, path: synced.append(path))
    removals = Removals(runtime(), DataDirs(runtime(), [tmp_path], LogTable()), OpenFiles(4))
    for number in range(3):
        assert removals.doom(new_log(tmp_path, tp=TopicPartition("t", number)))
    assert await removals.make_durable() and await removals.make_durable()
    assert synced == [tmp_path]


async def test_a_folder_that_cannot_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(disk: SystemDisk, path: Path) -> None:
        raise OSError("gone")

    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    removals = Removals(runtime(), dirs, OpenFiles(4))
    assert removals.doom(new_log(tmp_path))
    monkeypatch.setattr(SystemDisk, "sync_dir", refuse)
    assert not await removals.make_durable()
    assert dirs.offline() == [tmp_path]
