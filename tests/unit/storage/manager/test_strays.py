"""Logs that are set aside and wait for a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.storage.manager.strays import StrayFolder, Strays
from tests.support.storage.log_helpers import TP, batch, new_log, runtime
from tests.support.storage.log_managers import TOPIC_ID


async def test_a_log_gets_a_name_that_nobody_loads(tmp_path: Path) -> None:
    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    strays, log = Strays(runtime(), dirs), new_log(tmp_path)
    log.assign_topic_id(TOPIC_ID)
    log.append_as_leader(batch(), 0)
    assert strays.add(log) and set(dirs[tmp_path].gone) == {TP}
    [aside] = strays.folders
    assert SystemDisk().list_dir(tmp_path) == [aside.name]
    size = (aside / "00000000000000000000.log").stat().st_size
    assert size and await strays.describe() == [StrayFolder(aside, TOPIC_ID, size)]
    # A person takes it away while the broker runs.
    aside.rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    assert await strays.describe() == []


async def test_a_folder_that_cannot_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(disk: SystemDisk, source: Path, target: Path) -> None:
        raise OSError("read-only")

    dirs = DataDirs(runtime(), [tmp_path], LogTable())
    strays, log = Strays(runtime(), dirs), new_log(tmp_path)
    monkeypatch.setattr(SystemDisk, "rename", refuse)
    assert not strays.add(log)
    assert dirs.offline() == [tmp_path] and strays.folders == []
    assert (tmp_path / str(TP)).exists()
