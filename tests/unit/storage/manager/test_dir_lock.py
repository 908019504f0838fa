"""The locks of a broker's folders: all of them before the first look, each only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import DirInUse, SystemDisk
from ottla.storage.manager.dir_lock import DirLocks


async def test_a_lock_is_taken_once_and_handed_out_again(tmp_path: Path) -> None:
    locks = DirLocks(SystemDisk())
    locks.take_all([tmp_path / "x", tmp_path / "y"])
    assert locks.take(tmp_path / "x") is locks.take(tmp_path / "x")
    other = DirLocks(SystemDisk())
    with pytest.raises(DirInUse):
        other.take_all([tmp_path / "z", tmp_path / "y"])
    await other.release()
    await locks.release()
    again = DirLocks(SystemDisk())
    again.take_all([tmp_path / "x", tmp_path / "y", tmp_path / "z"])
    await again.release()


async def test_a_folder_that_cannot_be_used_is_left_to_its_loader(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    locks = DirLocks(SystemDisk())
    locks.take_all([tmp_path / "file" / "x", tmp_path / "y"])
    with pytest.raises(OSError):
        locks.take(tmp_path / "file" / "x")
    assert (tmp_path / "y" / ".lock").exists()
    await locks.release()
