from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.state import BadState, CopyState, FinalConfigs, Identity, UnderWay
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


class Dying(SystemDisk):
    """After so many files that it has removed."""

    def __init__(self, removals: int) -> None:
        self.removals = removals

    def remove(self, path: Path) -> None:
        if not self.removals:
            raise KeyboardInterrupt
        self.removals -= 1
        super().remove(path)


@pytest.mark.parametrize("removals", range(4))
def test_whoever_finds_a_state_finds_the_configs_too(tmp_path: Path, removals: int) -> None:
    folder = CopyFolder(Dying(removals), tmp_path)
    final = FinalConfigs({"retention.ms": "1000"}, "id2", is_made=True)
    folder.write_configs(final)
    folder.write_state(a_state(4))
    folder.write_under_way(UnderWay(5, {0: (0, 10)}, {0: 0}))
    with suppress(KeyboardInterrupt):
        folder.forget()
    state = folder.state()
    assert (folder.configs() == final) if removals < 3 else (folder.configs() is None)
    assert state is not None if removals < 2 else state is None
    assert state is None or removals == 0 or folder.under_way(state) is None


@pytest.mark.parametrize("removals", range(3))
def test_configs_are_there_all_the_time_where_a_copy_begins_anew(
    tmp_path: Path, removals: int
) -> None:
    before = FinalConfigs({"retention.ms": "1000"}, "id2")
    after = FinalConfigs({"retention.ms": "2000"}, is_made=True)
    folder = CopyFolder(Dying(removals), tmp_path)
    folder.write_configs(before)
    folder.write_state(a_state(4))
    with suppress(KeyboardInterrupt):
        folder.begin_anew(after)
    assert folder.configs() == (after if removals == 2 else before)
    assert removals < 2 or folder.state() is None
