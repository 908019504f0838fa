"""The small files in a log's folder: topic id, leader epochs, snapshots of producers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.runtime import Disk
from ottla.storage import checkpoints
from ottla.storage.checkpoints import CheckpointDamaged
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.producers.snapshots import snapshot_offsets
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.file_names import SNAPSHOT_SUFFIX, file_name
from ottla.types import ZERO_TOPIC_ID, TopicId

logger = logging.getLogger(__name__)


class SideFiles:
    """`unsynced` are those written without fsync, and transaction indexes; the log's next flush
    syncs them."""

    __slots__ = ("_disk", "folder", "on_first_record", "shared_id", "unsynced")

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self.folder = folder
        self.unsynced: set[Path] = set()
        # The topic id, as long as only the data folder's file for all small logs has it.
        self.shared_id: TopicId | None = None
        # Makes what that file says of a folder durable; raises OSError.
        self.on_first_record: Callable[[str], None] | None = None

    def write_topic_id(self, topic_id: TopicId) -> None:
        self._write(
            self.folder / checkpoints.PARTITION_METADATA,
            checkpoints.encode_partition_metadata(topic_id),
        )
        self.shared_id = None

    @property
    def needs_line(self) -> bool:
        """Whether a power cut may leave the topic id in the data folder's file alone: the log has
        no file of its own for it yet, or one that was not synced."""
        own = self.folder / checkpoints.PARTITION_METADATA
        return self.shared_id is not None or own in self.unsynced

    def write_shared_id(self) -> None:
        """The folder tells whose it is, wherever it goes; synced with the next flush."""
        if self.shared_id is not None:
            self.write_topic_id(self.shared_id)

    def secure_id(self) -> None:
        """Before a log's first record: a power cut that takes the id must not leave records, of
        which nobody could tell whose they are. Raises OSError."""
        if self.needs_line and self.on_first_record is not None:
            self.on_first_record(self.folder.name)

    def read_topic_id(self) -> TopicId:
        """Zeros where it is not known."""
        path = self.folder / checkpoints.PARTITION_METADATA
        if not self._disk.exists(path):
            return ZERO_TOPIC_ID
        try:
            data = self._disk.read_bytes(path)
            return checkpoints.decode_partition_metadata(data) or ZERO_TOPIC_ID
        except CheckpointDamaged as damage:
            # It is synced with the log's first flush: a power cut before that can tear it. The
            # controller names the id again with its next LeaderAndIsr.
            logger.warning("%s: the topic id is not known: %s", self.folder, damage)
            return ZERO_TOPIC_ID

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """Atomic and durable."""
        self._disk.write_atomically(
            self.folder / checkpoints.LEADER_EPOCHS, checkpoints.encode_epochs(epochs.entries())
        )
        epochs.dirty = False

    def read_epochs(self) -> LeaderEpochs | None:
        """None where the file is damaged."""
        path = self.folder / checkpoints.LEADER_EPOCHS
        if not self._disk.exists(path):
            return LeaderEpochs()
        try:
            return LeaderEpochs(checkpoints.decode_epochs(self._disk.read_bytes(path)))
        except CheckpointDamaged as damage:
            # Kafka takes the whole folder out of use; every batch names its epoch.
            logger.warning("%s: the leader epochs are read from the log: %s", path, damage)
            return None

    def write_snapshot(self, producers: ProducerState) -> None:
        """The producers' state up to the log's end, once per end (ProducerStateManager)."""
        offset = producers.map_end_offset
        if offset > producers.last_snapshot_offset:
            self._write(self._snapshot(offset), producers.encode_snapshot())
            producers.last_snapshot_offset = offset

    def drop_snapshots_after(self, offset: int) -> None:
        for snapshot_offset in snapshot_offsets(self._disk, self.folder):
            if snapshot_offset > offset:
                path = self._snapshot(snapshot_offset)
                self._disk.remove(path)
                self.unsynced.discard(path)

    def drop_stray_snapshots(self, bases: Iterable[int], end_offset: int) -> None:
        """Keeps those at segment bases and the newest one if it lies above the last base. One
        behind the log's end speaks of records that are lost, and others will have their
        offsets."""
        kept = set(bases)
        offsets = snapshot_offsets(self._disk, self.folder)
        newest = max((offset for offset in offsets if offset <= end_offset), default=-1)
        if newest > max(kept):
            kept.add(newest)
        for offset in offsets:
            if offset not in kept:
                self._disk.remove(self._snapshot(offset))

    def forget(self, removed: Iterable[Path]) -> None:
        """Files that were renamed to be removed need no sync."""
        self.unsynced.difference_update(path.with_suffix("") for path in removed)

    def move_to(self, folder: Path) -> None:
        """The folder was renamed."""
        self.unsynced = {folder / path.name for path in self.unsynced}
        self.folder = folder

    def _snapshot(self, offset: int) -> Path:
        return self.folder / file_name(offset, SNAPSHOT_SUFFIX)

    def _write(self, path: Path, data: bytes) -> None:
        file = self._disk.open(path)
        try:
            file.truncate(0)
            file.append(data)
        finally:
            file.close()
        self.unsynced.add(path)
