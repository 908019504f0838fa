from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.state import BadState, CopyState, Identity, UnderWay
from ottla.runtime import DirInUse, SystemDisk


def a_state(batch: int) -> CopyState:
    identity = Identity("c", "t", "id", "c", "u", "id2", 5, "murmur2", "", "")
    return CopyState(identity, {0: 0}, {0: 0}, {0: 0}, batch=batch)


def test_a_micro_batch_that_had_begun_is_found(tmp_path: Path) -> None:
    folder = CopyFolder(SystemDisk(), tmp_path / "clones" / "one")
    folder.open()
    assert folder.state() is None
    folder.write_state(a_state(4))
    assert folder.under_way(a_state(4)) is None
    begun = UnderWay(5, {0: (0, 10)}, {0: 0})
    folder.write_under_way(begun)
    found = folder.state()
    assert found is not None and folder.under_way(found) == begun
    folder.write_state(a_state(5))
    assert folder.under_way(a_state(5)) is None, "it is done"
    folder.forget()
    assert folder.state() is None
    folder.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = CopyFolder(SystemDisk(), tmp_path)
    folder.open()
    with pytest.raises(DirInUse):
        CopyFolder(SystemDisk(), tmp_path).open()
    folder.close()
    folder.open()
    folder.close()


def test_damage_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "copy.json").write_text("{")
    with pytest.raises(BadState, match=r"copy\.json is not JSON"):
        CopyFolder(SystemDisk(), tmp_path).state()
