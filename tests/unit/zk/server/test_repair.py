"""A repaired store has everything that could be read, and the old files are still there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ottla.metadata.store import OPEN_ACL
from ottla.zk.server import journal as journal_module
from ottla.zk.server import records
from ottla.zk.server.records import DamagedFile
from ottla.zk.server.repair import repair
from ottla.zk.server.tree import CreateTxn
from tests.support.zk.store_folder import FOLDER, StoreFolder


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    monkeypatch.setattr(journal_module, "PREALLOCATED_BYTES", 1 << 14)
    monkeypatch.setattr(journal_module, "_ZEROS", bytes(1 << 12))


@pytest.fixture
def folder() -> StoreFolder:
    made = StoreFolder()
    for sizes in ((30,), (10, 2000, 10), (40,), (50,)):
        made.write(*sizes)
    return made


def repaired(folder: StoreFolder) -> str:
    return "\n".join(repair(folder.disk, FOLDER))  # type: ignore[arg-type]


def test_a_whole_store_is_left_alone(folder):
    before = folder.picture()
    assert repaired(folder) == ""
    folder.newest_data()[folder.starts[6] + 20] ^= 1  # a torn end needs no repair
    before = folder.picture()
    assert repaired(folder) == ""
    assert folder.picture() == before


def test_all_but_the_damaged_write_is_kept(folder):
    folder.journal.close(clean=True)
    folder.flip(folder.starts[3] + 30)
    old = folder.picture()
    told = repaired(folder)
    assert f"damaged at byte {folder.starts[3]}: the write 0x3 is lost" in told
    aside = FOLDER / "before-repair-1"
    assert f"the files of before are in {aside}" in told
    for path, content in old.items():
        assert bytes(folder.disk.files[aside / path.name].now) == content
    journal = folder.open()
    tree = journal.load()
    assert folder.names(tree) == ["n1", "n2", "n4", "n5", "n6"]
    # Numbers go on, and the store can be used and started again.
    zxid = tree.last_zxid + 1
    assert zxid > 6
    journal.append(zxid, 9, [CreateTxn("/n99", b"", OPEN_ACL, 0, 9)])
    journal.write(journal.take())
    journal.close(clean=True)
    assert folder.names(folder.open().load())[-1] == "n99"
    assert repaired(folder) == ""


def test_nodes_without_their_parents_go_and_are_named(folder):
    folder.write(5, parent="/n2")
    folder.write(5, parent="/n2/n7")
    folder.write(5, parent="/n4")
    folder.flip(folder.starts[2])
    told = repaired(folder)
    assert "dropped, as nodes above them are lost: /n2/n7, /n2/n7/n8" in told
    tree = folder.open().load()
    assert sorted(path for path in tree.nodes if path.startswith("/n")) == [
        "/n1", "/n3", "/n4", "/n4/n9", "/n5", "/n6",
    ]  # fmt: skip


def test_the_numbers_of_lost_writes_are_not_given_out_again(folder):
    folder.journal.close(clean=True)
    folder.disk.remove(folder.path(1))
    assert "6 writes (0x1 to 0x6) are missing" in repaired(folder)
    assert folder.open().load().last_zxid > 6


def test_no_snapshot_and_not_all_journals(folder):
    for _ in range(3):
        folder.snapshot()
        folder.write(10)
    for zxid in (7, 8):
        folder.disk.files[folder.path(zxid, "snapshot")].now[-1] ^= 1
    told = repaired(folder)
    assert "no snapshot in /store can be read" in told
    assert "7 writes (0x1 to 0x7) are missing" in told
    assert folder.names(folder.open().load()) == ["n8", "n9"]


def test_it_can_be_cut_short_anywhere_and_begun_again(folder, monkeypatch):
    folder.flip(folder.starts[3])
    writes = 0

    class Cut(Exception):
        pass

    original = type(folder.disk).write_atomically
    for allowed in range(20):
        writes = 0

        def counted(disk, path: Path, data: bytes, allowed: int = allowed) -> None:
            nonlocal writes
            writes += 1
            if writes > allowed:
                raise Cut
            original(disk, path, data)

        monkeypatch.setattr(type(folder.disk), "write_atomically", counted)
        try:
            repaired(folder)
            break
        except Cut:
            # Still refused, or repaired; never empty.
            try:
                tree = folder.open().load()
            except DamagedFile:
                continue
            assert folder.names(tree) == ["n1", "n2", "n4", "n5", "n6"]
    else:
        pytest.fail("never finished")
    assert folder.names(folder.open().load()) == ["n1", "n2", "n4", "n5", "n6"]


@pytest.mark.parametrize("seed", range(30))
def test_after_a_repair_the_store_starts(seed):
    draw = random.Random(seed)
    made = StoreFolder()
    for _ in range(4):
        made.write(*(draw.randrange(300) for _ in range(draw.randrange(1, 5))))
        if draw.random() < 0.4:
            made.snapshot()
    made.journal.close(clean=draw.random() < 0.5)
    for _ in range(draw.randrange(1, 5)):
        path = draw.choice(sorted(made.disk.files))
        data = made.disk.files[path].now
        if draw.random() < 0.2:
            made.disk.remove(path)
            if not made.disk.files:
                return
        elif data:
            start = draw.randrange(len(data))
            data[start : start + 100] = draw.randbytes(draw.randrange(200))
    repaired(made)
    tree = made.open().load()
    assert set(made.names(tree)) <= set(made.names(made.tree))


def test_a_write_of_a_later_version_is_not_dropped(folder):
    payload = records.encode_record(7, 5, [b"\x63unheard of"])
    end = folder.journal._position
    folder.newest_data()[end : end + len(payload)] = payload
    with pytest.raises(DamagedFile, match="later version"):
        repaired(folder)
