"""What survives a power cut: synced contents under synced names, and nothing for sure beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.runtime import DirInUse
from ottla.simulation.disk import ProcessDisk, SimDisk

FOLDER = Path("/data")


def _disk(seed: int = 0) -> tuple[SimDisk, ProcessDisk]:
    host = SimDisk(f"{seed}", lambda: 1000)
    disk = ProcessDisk(host, lambda: True)
    disk.make_dirs(FOLDER)
    disk.sync_dir(Path("/"))
    return host, disk


def test_files_and_folders_behave_as_on_a_real_disk() -> None:
    _, disk = _disk()
    file = disk.open(FOLDER / "f")
    file.append(b"hello")
    file.write_at(b"J", 0)
    file.write_at(b"!", 7)
    assert disk.read_bytes(FOLDER / "f") == b"Jello\0\0!" and file.size() == 8
    file.truncate(2)
    assert file.read_at(10, 1) == b"e" and disk.size(FOLDER / "f") == 2
    disk.rename(FOLDER / "f", FOLDER / "g")
    disk.make_dirs(FOLDER / "sub" / "deep")
    assert disk.list_dir(FOLDER) == ["g", "sub"] and disk.is_dir(FOLDER / "sub")
    disk.remove_tree(FOLDER / "sub")
    disk.remove(FOLDER / "g")
    disk.remove(FOLDER / "g")
    assert disk.list_dir(FOLDER) == []
    with pytest.raises(FileNotFoundError):
        disk.open(FOLDER / "missing", create=False)
    with pytest.raises(IsADirectoryError):
        disk.read_bytes(FOLDER)
    with pytest.raises(FileNotFoundError):
        disk.rename(FOLDER / "x", FOLDER / "y")


def test_synced_contents_survive_and_later_writes_may_be_torn() -> None:
    outcomes = set()
    for seed in range(60):
        host, disk = _disk(seed)
        file = disk.open(FOLDER / "f")
        file.append(b"safe")
        file.sync()
        disk.sync_dir(FOLDER)
        file.append(b"1234")
        file.write_at(b"S", 0)
        host.power_cut()
        data = disk.read_bytes(FOLDER / "f")
        assert data[1:4] == b"afe" and data[:1] in (b"s", b"S")
        assert b"1234".startswith(data[4:])
        outcomes.add(data)
    assert b"safe" in outcomes and b"Safe1234" in outcomes and b"safe12" in outcomes


def test_a_truncation_that_was_not_synced_may_be_taken_back() -> None:
    host, disk = _disk()
    file = disk.open(FOLDER / "f")
    file.append(b"0123456789")
    file.sync()
    disk.sync_dir(FOLDER)
    file.truncate(3)
    host.power_cut()
    assert disk.read_bytes(FOLDER / "f") == b"0123456789"


def test_names_are_sure_only_after_their_folder_was_synced() -> None:
    survived = set()
    for seed in range(40):
        host, disk = _disk(seed)
        disk.write_atomically(FOLDER / "sure", b"x")
        file = disk.open(FOLDER / "new")
        file.append(b"y")
        file.sync()
        disk.rename(FOLDER / "sure", FOLDER / "renamed")
        host.power_cut()
        survived.add(tuple(disk.list_dir(FOLDER)))
    assert survived == {("sure",), ("new", "renamed")}


def test_a_dead_process_cannot_touch_the_disk() -> None:
    host, disk = _disk()
    alive = [True]
    late = ProcessDisk(host, lambda: alive[0])
    file = late.open(FOLDER / "f")
    alive[0] = False
    with pytest.raises(OSError, match="gone"):
        file.append(b"late")
    with pytest.raises(OSError, match="gone"):
        late.list_dir(FOLDER)
    assert disk.read_bytes(FOLDER / "f") == b""


def test_a_folder_is_locked_once() -> None:
    _, disk = _disk()
    lock = disk.lock(FOLDER)
    with pytest.raises(DirInUse):
        disk.lock(FOLDER)
    lock.release()
    disk.lock(FOLDER)
