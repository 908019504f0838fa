"""A torn end is cut off; damage of any kind, anywhere, stops the start and changes nothing."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

import pytest

from ottla.zk.server import journal as journal_module
from ottla.zk.server import records
from ottla.zk.server.records import DamagedFile, Gap
from ottla.zk.server.recovery import NOTE
from ottla.zk.server.tree import SetDataTxn, Tree
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


def refused(folder: StoreFolder) -> str:
    """Why the store does not start; it must not have touched anything."""
    before = folder.picture()
    with pytest.raises(DamagedFile) as error:
        folder.open().load()
    assert folder.picture() == before
    text = str(error.value)
    assert "ottla zookeeper --repair --data /store" in text
    assert "0001: /store" not in text
    return text


def loaded(folder: StoreFolder) -> Tree:
    return folder.open().load()


@pytest.mark.parametrize("zxid", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("offset", [0, 3, 5, 8, 15, 30])
def test_one_flipped_bit_with_writes_behind_it(folder, zxid, offset):
    folder.flip(folder.starts[zxid] + offset)
    text = refused(folder)
    assert f"is damaged at byte {folder.starts[zxid]}" in text
    assert f"the write {zxid:#x} is lost" in text
    assert f"({6 - zxid} later one" in text


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_damaged_before_the_last_write_is_found(seed):
    """Bytes overwritten, zeroed, taken out or doubled anywhere."""
    draw = random.Random(seed)
    made = StoreFolder()
    for _ in range(draw.randrange(3, 8)):
        made.write(*(draw.randrange(600) for _ in range(draw.randrange(1, 4))))
    made.write(5)
    data = made.newest_data()
    first, last = len(records.JOURNAL_MAGIC), made.starts[made.tree.last_zxid] - 28
    start = draw.randrange(first, last)
    size = draw.randrange(1, 1 + last - start)
    damage = draw.choice(("noise", "zeros", "cut", "doubled"))
    before = bytes(data)
    if damage == "noise":
        data[start : start + size] = draw.randbytes(size)
    elif damage == "zeros":
        data[start : start + size] = bytes(size)
    elif damage == "cut":
        del data[start : start + size]
    else:
        data[start:start] = data[start : start + size]
    if bytes(data) == before:
        return
    try:
        tree = loaded(made)
    except DamagedFile:
        return
    # Where only a mark was hit, or what was put in is no write, nothing may be missing.
    assert made.names(tree) == made.names(made.tree)


@pytest.mark.parametrize("cut", [4, 7, 8, 20, 35, 60])
def test_a_torn_end_is_cut_off_with_one_line(folder, cut, caplog):
    data = folder.newest_data()
    start = folder.starts[6]
    data[start + cut :] = bytes(len(data) - start - cut)
    with caplog.at_level(logging.WARNING):
        assert folder.names(loaded(folder)) == ["n1", "n2", "n3", "n4", "n5"]
    [line] = [record.getMessage() for record in caplog.records]
    assert f"cut the last write short at byte {start}" in line
    caplog.clear()
    loaded(folder)
    assert not caplog.records


def test_a_whole_journal_says_nothing(folder, caplog):
    assert folder.names(loaded(folder)) == [f"n{i}" for i in range(1, 7)]
    assert not caplog.records


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_power_cut_may_lose_any_page_of_the_last_batch(folder, lost):
    """They reach the disk in any order; nobody was told of any write in it."""
    folder.write(100, 9000, 100, 3000, 100)
    data, page = folder.newest_data(), 4096
    start = folder.starts[7] - 28
    begin = start if lost == 0 else (start // page + lost) * page
    end = (begin // page + 1) * page
    data[begin:end] = bytes(end - begin)
    names = folder.names(loaded(folder))
    assert names[:6] == [f"n{i}" for i in range(1, 7)]
    assert names == [f"n{i}" for i in range(1, len(names) + 1)]


def test_pages_lost_in_an_earlier_batch_are_damage(folder):
    folder.write(100, 9000, 100)
    folder.write(10)
    data, page = folder.newest_data(), 4096
    begin = (folder.starts[8] // page + 1) * page
    data[begin : begin + page] = bytes(page)
    assert "the write 0x8 is lost (2 later ones" in refused(folder)


def test_a_journal_without_marks_is_held_to_the_strict_rule(folder):
    """One of an older version: any write behind the damage stops the start."""
    data = records.JOURNAL_MAGIC + b"".join(
        records.encode_record(zxid, 5, [SetDataTxn("/a", bytes([1]) * 2000, zxid)])
        for zxid in (1, 2, 3)
    )
    made = StoreFolder()
    made.newest_data()[:] = data + bytes(1000)
    assert loaded(made).last_zxid == 3
    made.newest_data()[2560:3072] = bytes(512)
    assert "the write 0x2 is lost" in refused(made)


def test_the_end_that_a_clean_stop_noted_must_be_there(folder):
    folder.journal.close(clean=True)
    loaded(folder)
    folder.flip(folder.starts[6] + 20)
    text = refused(folder)
    assert f"ends at byte {folder.starts[6]}" in text
    assert "clean stop was at 0x6: the write 0x6 is missing" in text


def test_the_note_holds_after_later_crashes_too(folder):
    folder.journal.close(clean=True)
    folder.journal = folder.open()
    folder.journal.load()
    folder.write(10)
    folder.flip(folder.starts[7] + 20)  # a torn end, for all that anyone can tell
    assert folder.names(loaded(folder))[-1] == "n6"
    folder.newest_data()[:] = records.JOURNAL_MAGIC
    assert "6 writes (0x1 to 0x6) are missing" in refused(folder)


@pytest.mark.parametrize("content", [None, b"", bytes(4096), bytes(8)])
def test_an_empty_or_missing_journal_beside_a_note(folder, content):
    folder.journal.close(clean=True)
    if content is None:
        folder.disk.remove(folder.path(1))
    else:
        folder.newest_data()[:] = content
    text = refused(folder)
    assert "6 writes (0x1 to 0x6) are missing" in text or "damaged at byte 0" in text


def test_a_journal_that_became_zeros_without_a_note(folder):
    data = folder.newest_data()
    data[:] = bytes(len(data))
    assert "is damaged at byte 0" in refused(folder)


def test_a_damaged_note_is_no_reason_to_refuse(folder, caplog):
    folder.journal.close(clean=True)
    folder.disk.files[FOLDER / NOTE].now[3] ^= 1
    assert folder.names(loaded(folder))[-1] == "n6"
    assert "clean-stop is not used" in caplog.text


def test_without_fsync_nothing_is_noted():
    made = StoreFolder()
    journal = journal_module.Journal(made.disk, FOLDER, fsync=False)  # type: ignore[arg-type]
    journal.load()
    journal.close(clean=True)
    assert FOLDER / NOTE not in made.disk.files


def test_a_note_that_cannot_be_written_does_not_stop_the_stop(folder, caplog):
    folder.disk.is_full = True
    folder.journal.close(clean=True)
    assert "clean-stop was not written" in caplog.text


@pytest.mark.parametrize("journals", [0, 1])
def test_a_missing_journal_beside_a_snapshot(folder, journals):
    folder.snapshot()
    folder.write(10)
    folder.disk.remove(folder.path(7))
    if journals == 0:
        folder.disk.remove(folder.path(1))
    assert "journal.0000000000000007 is missing" in refused(folder)


def test_an_unreadable_snapshot_is_said_and_set_aside(folder, caplog):
    folder.snapshot()
    folder.write(10)
    folder.snapshot()
    folder.write(10)
    folder.disk.files[folder.path(7, "snapshot")].now[40] ^= 1
    assert folder.names(loaded(folder)) == [f"n{i}" for i in range(1, 9)]
    [line] = [record.getMessage() for record in caplog.records]
    assert "snapshot.0000000000000007 cannot be read" in line
    assert folder.path(7, "snapshot") not in folder.disk.files
    assert FOLDER / "snapshot.0000000000000007.damaged" in folder.disk.files


def test_a_snapshot_under_the_name_of_another_is_not_used(folder, caplog):
    """Whole, but writes between the two are not in it."""
    folder.snapshot()
    folder.write(20)
    folder.snapshot()
    older = folder.disk.files[folder.path(6, "snapshot")].now
    folder.disk.files[folder.path(7, "snapshot")].now[:] = older
    assert folder.names(loaded(folder)) == [f"n{i}" for i in range(1, 8)]
    [line] = [record.getMessage() for record in caplog.records]
    assert "snapshot.0000000000000007 cannot be read: it is the snapshot of 0x6" in line


def test_the_first_snapshot_is_made_up_for_by_all_journals(folder, caplog):
    folder.snapshot()
    folder.write(10)
    folder.disk.files[folder.path(6, "snapshot")].now[:] = b""
    assert folder.names(loaded(folder)) == [f"n{i}" for i in range(1, 8)]
    assert "cannot be read" in caplog.text


def test_no_snapshot_and_not_all_journals(folder):
    for _ in range(3):
        folder.snapshot()
        folder.write(10)
    assert folder.path(1) not in folder.disk.files
    for zxid in (7, 8):
        folder.disk.files[folder.path(zxid, "snapshot")].now[-1] ^= 1
    assert "no snapshot in /store can be read" in refused(folder)


def test_an_older_snapshot_whose_journals_are_gone(folder):
    folder.snapshot()
    folder.write(10)
    folder.snapshot()
    folder.disk.files[folder.path(7, "snapshot")].now[40] ^= 1
    folder.disk.remove(folder.path(7))
    text = refused(folder)
    assert "snapshot.0000000000000007 cannot be read" in text
    assert "the write 0x7 is missing" in text


def test_a_write_of_a_later_version_is_not_taken_for_a_torn_end(folder):
    payload = records.encode_record(7, 5, [b"\x63unheard of"])
    end = folder.journal._position
    folder.newest_data()[end : end + len(payload)] = payload
    with pytest.raises(DamagedFile, match=r"journal\.0+1: the write at byte .* later version"):
        folder.open().load()


def test_a_crash_while_the_first_bytes_were_written():
    made = StoreFolder()
    made.newest_data()[:] = records.JOURNAL_MAGIC[:3]
    assert loaded(made).last_zxid == 0
    assert made.disk.files[made.path(1)].now.startswith(records.JOURNAL_MAGIC)


def test_a_long_search_ends(monkeypatch):
    """Node data that looks like record after record, each of them long."""
    monkeypatch.setattr(records, "_MAX_CHECKED_BYTES", 1 << 20)
    look_alike = (1 << 16).to_bytes(4, "big") + bytes(4) + (9).to_bytes(8, "big")
    data = b"\x01" * 8 + look_alike * 10_000
    [gap] = records.walk(data, 0, 3)
    assert isinstance(gap, Gap)
    assert gap.unclear
    made = StoreFolder()
    made.write(5)
    made.newest_data()[made.journal._position :] = data
    assert "is damaged at byte" in refused(made)


@pytest.mark.parametrize("filling", [b"\0", b"\0\0\0\1", b'{"a":1}', None])
def test_a_search_through_megabytes_is_quick(filling):
    size = 1 << 23
    noise = (
        random.Random(1).randbytes(size) if filling is None else filling * (size // len(filling))
    )
    data = b"\x01" + noise + records.encode_record(9, 1, [SetDataTxn("/a", b"", 1)])
    began = time.process_time()
    gap, *_ = records.walk(data, 0, 3)
    assert isinstance(gap, Gap)
    assert gap.after in (0, 9)
    assert gap.after == 9 or gap.unclear
    assert time.process_time() - began < 10


def test_a_note_round_trip():
    for zxid in (0, 1, 0xABC, (1 << 63) - 1):
        assert records.decode_note(records.encode_note(zxid)) == zxid
    for bad in (b"", b"x", b"0" * 16, records.encode_note(5)[:-1], records.encode_note(5) + b" "):
        with pytest.raises(DamagedFile):
            records.decode_note(bad)


def test_paths_of_messages_are_whole(folder):
    folder.flip(folder.starts[2])
    assert str(Path("/store/journal.0000000000000001")) in refused(folder)
