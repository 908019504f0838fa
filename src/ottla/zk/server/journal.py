"""The store's files: an append-only journal and snapshots, through the Disk port.

`append` only collects; `write` puts everything collected on disk with one fsync (group commit)
and is blocking, so the engine runs it off the event loop. Files are named after the first zxid
they may hold. What they say at a start is `recovery`'s to judge.
"""

from __future__ import annotations

import itertools
import logging
import zlib
from collections.abc import Sequence
from pathlib import Path

from ottla.runtime import Disk, File
from ottla.zk.server import records
from ottla.zk.server.records import DamagedFile
from ottla.zk.server.recovery import JOURNAL_PREFIX, NOTE, SNAPSHOT_PREFIX, Recovery, numbered
from ottla.zk.server.tree import Tree, Txn

logger = logging.getLogger(__name__)

# Journals grow ahead of the writer in real zeros: fsync then has no file size or block map to
# write (measured on ext4: 95 instead of 120 µs). ZooKeeper's preAllocSize.
PREALLOCATED_BYTES = 1 << 22
_ZEROS = bytes(1 << 16)
# What a snapshot is called until it is whole.
UNFINISHED = ".tmp"
# A snapshot is due after this much journal, and as much as the last one took.
SNAPSHOT_AFTER_BYTES = 1 << 25
# The newest snapshot might be unreadable one day; then the one before it still serves.
KEPT_SNAPSHOTS = 2


def make_folder(disk: Disk, folder: Path, *, fsync: bool = True) -> None:
    if not disk.exists(folder):
        disk.make_dirs(folder)
        if fsync:
            # Without it a power cut may take the whole folder back.
            disk.sync_dir(folder.parent)


class SnapshotFile:
    """A snapshot that is written piece by piece: whole it may be larger than what is left of the
    memory. All calls are blocking."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.size = 0
        self._disk = disk
        self._path = path
        self._unfinished = path.with_name(path.name + UNFINISHED)
        self._crc = 0
        self._file: File | None = None

    def write(self, piece: bytes) -> None:
        if self._file is None:
            self._file = self._disk.open(self._unfinished)
            self._file.truncate(0)
        self._file.write_at(piece, self.size)
        self._crc = zlib.crc32(piece, self._crc)
        self.size += len(piece)

    def finish(self) -> None:
        """From here on a start takes it."""
        self.write(records.encode_snapshot_end(self._crc))
        if self._file is not None:
            self._file.sync()
        self.close()
        self._disk.rename(self._unfinished, self._path)
        self._disk.sync_dir(self._path.parent)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Journal:
    """The files of one store: where writes go, and what has become useless.

    Each batch begins with a mark that says up to where everything was on disk before it. So a
    start can tell a batch that a power cut tore, which nobody was promised, from damage. Whoever
    calls takes care that blocking calls do not overlap, but for those of snapshots, which
    touch only files that are finished.
    """

    def __init__(self, disk: Disk, folder: Path, *, fsync: bool = True) -> None:
        self._disk = disk
        self._folder = folder
        self._fsync = fsync
        self._file: File | None = None
        self._position = 0
        self._allocated = 0
        self._pending: list[bytes] = []
        self.pending_bytes = 0
        # Of the last write that was appended, and of the last in an earlier batch.
        self._last_zxid = 0
        self._marked_zxid = 0
        self.bytes_since_snapshot = 0

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def append(self, zxid: int, time_ms: int, txns: Sequence[Txn | bytes]) -> None:
        record = records.encode_record(zxid, time_ms, txns)
        self._pending.append(record)
        self.pending_bytes += len(record)
        self._last_zxid = zxid

    def take(self) -> bytes:
        """Everything appended since the last call, as one batch for `write`."""
        batch = b"".join((records.encode_mark(self._marked_zxid), *self._pending))
        self._pending.clear()
        self.pending_bytes = 0
        self._marked_zxid = self._last_zxid
        return batch

    def write(self, batch: bytes) -> None:
        """Blocking; when it returns the batch survives a power cut (unless fsync is off)."""
        file = self._open_file()
        end = self._position + len(batch)
        if end > self._allocated and self._fsync:
            self._preallocate(file, end)
        file.write_at(batch, self._position)
        if self._fsync:
            file.sync()
        self._position = end
        self.bytes_since_snapshot += len(batch)

    def load(self) -> Tree:
        """Blocking. The tree as of the last acknowledged write; opens the journal for more.
        Raises DamagedFile, and has changed nothing then."""
        make_folder(self._disk, self._folder, fsync=self._fsync)
        found = Recovery(self._disk, self._folder).read()
        for remark in found.remarks:
            logger.warning("%s", remark)
        for name in found.unreadable_snapshots:
            # Not counted among those to fall back on any more.
            self._disk.rename(self._folder / name, self._folder / f"{name}.damaged")
        for name in self._disk.list_dir(self._folder):
            if name.startswith(SNAPSHOT_PREFIX) and name.endswith(UNFINISHED):
                self._disk.remove(self._folder / name)
        zxid = found.tree.last_zxid
        if found.newest is not None:
            self._reopen(found.newest, found.end)
        else:
            self._start_file(zxid + 1)
        self._last_zxid = self._marked_zxid = zxid
        return found.tree

    def rotate(self, next_zxid: int) -> None:
        """Blocking. Later batches go to a new file; everything before is on disk already."""
        self._close_file()
        self._start_file(next_zxid)
        self.bytes_since_snapshot = 0

    def new_snapshot(self, zxid: int) -> SnapshotFile:
        return SnapshotFile(self._disk, self._folder / f"{SNAPSHOT_PREFIX}{zxid:016x}")

    def drop_useless(self) -> None:
        """Blocking. After a snapshot was stored: what it makes useless."""
        snapshots = numbered(self._disk, self._folder, SNAPSHOT_PREFIX)
        for _, name in snapshots[:-KEPT_SNAPSHOTS]:
            self._disk.remove(self._folder / name)
        oldest_kept = snapshots[-KEPT_SNAPSHOTS:][0][0]
        journals = numbered(self._disk, self._folder, JOURNAL_PREFIX)
        for (_, name), (next_first, _) in itertools.pairwise(journals):
            if next_first <= oldest_kept + 1 and len(snapshots) >= KEPT_SNAPSHOTS:
                self._disk.remove(self._folder / name)

    def close(self, *, clean: bool = False) -> None:
        """Blocking. `clean`: everything is written, and the next start may hold it to that."""
        if clean and self._fsync and self._file is not None:
            self._note_end()
        self._close_file()

    def _note_end(self) -> None:
        path, note = self._folder / NOTE, records.encode_note(self._last_zxid)
        try:
            if not self._disk.exists(path) or self._disk.read_bytes(path) != note:
                self._disk.write_atomically(path, note)
        except OSError as error:
            # Without it a later start knows less; nothing that was written depends on it.
            logger.warning("%s was not written: %s", path, error)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _reopen(self, path: Path, end: int) -> None:
        """Cuts off whatever follows the last whole record, so that it can never come back."""
        file = self._disk.open(path)
        file.truncate(end)
        if self._fsync:
            file.sync()
        self._file = file
        self._position = self._allocated = end
        self.bytes_since_snapshot = end

    def _start_file(self, first_zxid: int) -> None:
        path = self._folder / f"{JOURNAL_PREFIX}{first_zxid:016x}"
        file = self._disk.open(path)
        file.truncate(0)
        file.write_at(records.JOURNAL_MAGIC, 0)
        if self._fsync:
            file.sync()
            self._disk.sync_dir(self._folder)
        self._file = file
        self._position = self._allocated = len(records.JOURNAL_MAGIC)

    def _preallocate(self, file: File, needed: int) -> None:
        while self._allocated < needed:
            target = self._allocated + PREALLOCATED_BYTES
            while self._allocated < target:
                file.write_at(_ZEROS, self._allocated)
                self._allocated += len(_ZEROS)

    def _open_file(self) -> File:
        if self._file is None:
            raise DamagedFile(f"the journal in {self._folder} is closed")
        return self._file
