"""The small files of a log's folder: what is written is read again, and what waits for a sync."""

from __future__ import annotations

from pathlib import Path

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.side_files import SideFiles
from ottla.storage.producers.snapshots import snapshot_offsets
from ottla.storage.producers.state import ProducerState
from ottla.types import ZERO_TOPIC_ID


def snapshots(files: SideFiles, *offsets: int) -> None:
    for offset in offsets:
        producers = ProducerState()
        producers.map_end_offset = offset
        files.write_snapshot(producers)
        assert producers.last_snapshot_offset == offset


def test_the_topic_id_is_unsynced_until_a_flush(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    assert files.read_topic_id() == ZERO_TOPIC_ID
    files.write_topic_id(bytes(range(16)))
    assert files.read_topic_id() == bytes(range(16))
    assert files.unsynced == {tmp_path / checkpoints.PARTITION_METADATA}


def test_epochs_are_durable_at_once(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    epochs = LeaderEpochs()
    epochs.assign(3, 7)
    files.write_epochs(epochs)
    again = files.read_epochs()
    assert again is not None and again.entries() == [(3, 7)]
    assert not files.unsynced and not epochs.dirty
    (tmp_path / checkpoints.LEADER_EPOCHS).write_bytes(b"nonsense")
    assert files.read_epochs() is None


def test_a_snapshot_is_written_once_per_end(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    snapshots(files, 5)
    (path,) = files.unsynced
    path.write_bytes(b"as it was")
    producers = ProducerState()
    producers.map_end_offset = producers.last_snapshot_offset = 5
    files.write_snapshot(producers)
    assert path.read_bytes() == b"as it was"


def test_a_truncation_takes_later_snapshots(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    snapshots(files, 5, 10, 15)
    files.drop_snapshots_after(10)
    assert snapshot_offsets(SystemDisk(), tmp_path) == [5, 10] and len(files.unsynced) == 2


def test_stray_snapshots_go_but_the_newest_stays(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    snapshots(files, 5, 7, 10, 12, 14, 99)
    files.drop_stray_snapshots([5, 10], 20)
    assert snapshot_offsets(SystemDisk(), tmp_path) == [5, 10, 14]


def test_removed_files_need_no_sync_and_others_follow_the_folder(tmp_path: Path) -> None:
    files = SideFiles(SystemDisk(), tmp_path)
    snapshots(files, 5, 10)
    first = min(files.unsynced)
    files.forget([first.with_name(first.name + ".deleted")])
    files.move_to(tmp_path / "elsewhere")
    assert files.unsynced == {tmp_path / "elsewhere" / "00000000000000000010.snapshot"}
