"""Logs of topics that have another name now."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.storage.manager.shared_ids import FILE_NAME
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from tests.support.storage.log_helpers import all_offsets, batch
from tests.support.storage.log_managers import TOPIC_ID, manager

OLD, NEW = TopicPartition("old", 3), TopicPartition("new", 3)


async def test_a_log_is_found_by_its_id_and_keeps_all_it_has(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(OLD, topic_id=TOPIC_ID)
    for _ in range(4):
        log.append_as_leader(batch(), 0)
    log.set_high_watermark(4)
    log.advance_start_offset(2)
    noted: list[tuple[str, TopicPartition, str]] = []
    logs.listen(lambda *note: noted.append(note))
    generation = log.generation

    found = logs.renamed.find({NEW: TOPIC_ID, TopicPartition("new", 4): TOPIC_ID})
    assert found == {NEW: log}
    assert await logs.renamed.rename(found) == [NEW]

    assert (logs.get(OLD), logs.get(NEW)) == (None, log)
    assert (log.tp, log.folder) == (NEW, tmp_path / "new-3")
    assert log.generation > generation
    assert noted == [("folder-renamed", NEW, f"{tmp_path.name}/new-3")]
    log.append_as_leader(batch(), 0)
    assert all_offsets(log) == [2, 3, 4]
    # Nothing to find any more, and nothing where there is no id.
    assert logs.renamed.find({NEW: TOPIC_ID, OLD: ZERO_TOPIC_ID}) == {}
    await logs.shutdown()

    again = manager(tmp_path)
    await again.start()
    loaded = again.get(NEW)
    assert loaded is not None
    assert (loaded.start_offset, loaded.end_offset, loaded.topic_id) == (2, 5, TOPIC_ID)
    assert again.get(OLD) is None
    await again.shutdown()


async def test_checkpoints_name_both_until_the_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut right before the rename, or right after it, finds where the log begins."""
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(OLD, topic_id=TOPIC_ID)
    log.append_as_leader(batch(), 0)
    log.append_as_leader(batch(), 0)
    log.set_high_watermark(2)
    log.advance_start_offset(1)
    starts: list[dict[TopicPartition, int]] = []
    rename = SystemDisk.rename

    def seen(disk: SystemDisk, source: Path, target: Path) -> None:
        if target.name == "new-3":
            data = disk.read_bytes(tmp_path / checkpoints.LOG_STARTS)
            starts.append(checkpoints.decode_offsets(data))
        rename(disk, source, target)

    monkeypatch.setattr(SystemDisk, "rename", seen)
    await logs.renamed.rename({NEW: log})
    assert starts == [{OLD: 1, NEW: 1}]
    # A new log of the old name does not begin where this one did.
    assert logs.get_or_create(OLD).start_offset == 0
    assert checkpoints.decode_offsets((tmp_path / checkpoints.LOG_STARTS).read_bytes()) == {NEW: 1}
    await logs.shutdown()


async def test_a_name_that_is_taken_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(OLD, topic_id=TOPIC_ID)
    other = logs.get_or_create(NEW, topic_id=b"x" * 16)
    assert logs.renamed.find({NEW: TOPIC_ID}) == {}
    lines = (tmp_path / FILE_NAME).read_bytes()
    assert await logs.renamed.rename({NEW: log}) == []
    assert (logs.get(OLD), logs.get(NEW)) == (log, other)
    # Nothing is said of the other one: a start would believe it.
    assert (tmp_path / FILE_NAME).read_bytes() == lines
    assert not (tmp_path / checkpoints.RECOVERY_POINTS).exists()
    longer = TopicPartition("longer", 3)

    def too_long(disk: SystemDisk, source: Path, target: Path) -> None:
        if target.name == "longer-3":
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        source.rename(target)

    monkeypatch.setattr(SystemDisk, "rename", too_long)
    assert await logs.renamed.rename({longer: log}) == []
    assert logs.dirs.offline() == []
    assert logs.get(OLD) is log

    def broken(disk: SystemDisk, source: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SystemDisk, "rename", broken)
    assert await logs.renamed.rename({longer: log}) == []
    assert logs.dirs.offline() == [tmp_path]


async def test_a_process_that_dies_later_knows_the_id_under_the_new_name(tmp_path: Path) -> None:
    """Small logs share a file of ids by the names of their folders."""
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(OLD, topic_id=TOPIC_ID)
    assert log.side_files.shared_id == TOPIC_ID
    await logs.renamed.rename({NEW: log})
    newest = TopicPartition("newest", 3)
    await logs.renamed.rename(logs.renamed.find({newest: TOPIC_ID}))
    logs.dirs.release_locks()  # nothing else is done for it

    again = manager(tmp_path)
    await again.start()
    loaded = again.get(newest)
    assert loaded is not None
    assert loaded.topic_id == TOPIC_ID
    await again.shutdown()


async def test_a_log_without_an_id_does_not_stand_for_the_one_that_has_it(tmp_path: Path) -> None:
    """A power cut took the id of an empty log; another one, of that topic, is to get its name."""
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(OLD, topic_id=TOPIC_ID)
    log.append_as_leader(batch(), 0)
    logs.get_or_create(NEW, topic_id=ZERO_TOPIC_ID)
    assert logs.renamed.find({NEW: TOPIC_ID}) == {NEW: log}
    # Whoever asked has taken it out of the way by then.
    assert await logs.renamed.rename({NEW: log}) == []
    logs.delete(NEW)
    assert await logs.renamed.rename({NEW: log}) == [NEW]
    await logs.shutdown()


async def test_a_name_that_is_taken_while_the_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two data folders the second is looked at when its turn comes."""
    logs = manager(tmp_path / "a", tmp_path / "b")
    await logs.start()
    pairs = {NEW: OLD, TopicPartition("new", 4): TopicPartition("old", 4)}
    found = {}
    for (tp, old), name in zip(pairs.items(), ("a", "b"), strict=True):
        logs.prefer_dir(old, tmp_path / name)
        found[tp] = logs.get_or_create(old, topic_id=TOPIC_ID)
    assert [log.data_dir.name for log in found.values()] == ["a", "b"]
    last = TopicPartition("new", 4)
    sync_dir = SystemDisk.sync_dir

    def taking(disk: SystemDisk, path: Path) -> None:
        sync_dir(disk, path)
        if path.name == "a" and logs.get(last) is None:
            logs.get_or_create(last, topic_id=bytes(reversed(TOPIC_ID)))

    monkeypatch.setattr(SystemDisk, "sync_dir", taking)
    assert await logs.renamed.rename(found) == [NEW]
    taken = logs.get(last)
    assert taken is not None and taken.topic_id != TOPIC_ID
    assert logs.get(TopicPartition("old", 4)) is found[last]
