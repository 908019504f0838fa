"""The store's files: an append-only journal and snapshots, through the Disk port.

`append` only collects; `write` puts everything collected on disk with one fsync (group commit)
and is blocking, so the engine runs it off the event loop. Files are named after the first zxid
they may hold. The end of the newest journal may be torn by a crash and is cut off at start;
a damaged older one means that acknowledged writes are gone, and the store refuses to start.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from ottla.runtime import Disk, File
from ottla.zk.server import records
from ottla.zk.server.records import DamagedFile
from ottla.zk.server.tree import Tree, Trigger, Txn

# Journals grow ahead of the writer in real zeros: fsync then has no file size or block map to
# write (measured on ext4: 95 instead of 120 µs). ZooKeeper's preAllocSize.
PREALLOCATED_BYTES = 1 << 22
_ZEROS = bytes(1 << 16)
# A snapshot is due after this much journal.
SNAPSHOT_AFTER_BYTES = 1 << 25
# The newest snapshot might be unreadable one day; then the one before it still serves.
KEPT_SNAPSHOTS = 2

_JOURNAL_PREFIX = "journal."
_SNAPSHOT_PREFIX = "snapshot."


class Journal:
    """The folder of one store. Whoever calls takes care that blocking calls do not overlap, but
    for `write_snapshot`, which touches only files that are finished."""

    def __init__(self, disk: Disk, folder: Path, *, fsync: bool = True) -> None:
        self._disk = disk
        self._folder = folder
        self._fsync = fsync
        self._file: File | None = None
        self._position = 0
        self._allocated = 0
        self._pending: list[bytes] = []
        self.bytes_since_snapshot = 0

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def append(self, zxid: int, time_ms: int, txns: Sequence[Txn | bytes]) -> None:
        self._pending.append(records.encode_record(zxid, time_ms, txns))

    def take(self) -> bytes:
        """Everything appended since the last call, as one batch for `write`."""
        batch = b"".join(self._pending)
        self._pending.clear()
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
        """Blocking. The tree as of the last acknowledged write; opens the journal for more."""
        if not self._disk.exists(self._folder):
            self._disk.make_dirs(self._folder)
            if self._fsync:
                # Without it a power cut may take the whole folder back.
                self._disk.sync_dir(self._folder.parent)
        tree, base_zxid = self._load_snapshot()
        names = self._names(_JOURNAL_PREFIX)
        for index, (first_zxid, name) in enumerate(names):
            is_last = index + 1 == len(names)
            # A journal wholly before the snapshot is only kept for the older snapshot.
            if not is_last and names[index + 1][0] <= base_zxid + 1:
                continue
            self._replay(self._folder / name, tree, base_zxid, is_last=is_last)
            self._check_reaches(tree, first_zxid, name)
        if not names:
            self._start_file(tree.last_zxid + 1)
        return tree

    def rotate(self, next_zxid: int) -> None:
        """Blocking. Later batches go to a new file; everything before is on disk already."""
        self.close()
        self._start_file(next_zxid)
        self.bytes_since_snapshot = 0

    def write_snapshot(self, zxid: int, content: bytes) -> None:
        """Blocking. Stores a snapshot started at `zxid` and drops what it makes useless."""
        self._disk.write_atomically(self._folder / f"{_SNAPSHOT_PREFIX}{zxid:016x}", content)
        snapshots = self._names(_SNAPSHOT_PREFIX)
        for _, name in snapshots[:-KEPT_SNAPSHOTS]:
            self._disk.remove(self._folder / name)
        oldest_kept = snapshots[-KEPT_SNAPSHOTS:][0][0]
        journals = self._names(_JOURNAL_PREFIX)
        for (_, name), (next_first, _) in itertools.pairwise(journals):
            if next_first <= oldest_kept + 1 and len(snapshots) >= KEPT_SNAPSHOTS:
                self._disk.remove(self._folder / name)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _load_snapshot(self) -> tuple[Tree, int]:
        names = self._names(_SNAPSHOT_PREFIX)
        for zxid, name in reversed(names):
            try:
                return records.decode_snapshot(self._disk.read_bytes(self._folder / name)), zxid
            except DamagedFile:
                continue
        if names:
            raise DamagedFile(f"no snapshot in {self._folder} can be read")
        return Tree(), 0

    def _replay(self, path: Path, tree: Tree, base_zxid: int, *, is_last: bool) -> None:
        data = self._disk.read_bytes(path)
        magic = records.JOURNAL_MAGIC
        if data[: len(magic)] != magic:
            if not is_last or any(data):
                raise DamagedFile(f"{path} is not a journal of this store")
            # The crash came between making the file and its first bytes.
            self._disk.remove(path)
            self._start_file(tree.last_zxid + 1)
            return
        position = len(magic)
        ignored: list[Trigger] = []
        for zxid, time_ms, txns, end in records.iter_records(data, position):
            position = end
            if zxid <= base_zxid:
                continue
            for txn in txns:
                tree.apply(zxid, time_ms, txn, ignored)
            tree.last_zxid = zxid
            ignored.clear()
        if is_last:
            self._reopen(path, position)
        elif any(data[position:]):
            raise DamagedFile(f"{path} is damaged at byte {position}")

    def _check_reaches(self, tree: Tree, first_zxid: int, name: str) -> None:
        """The file's name says which write came right before it; that one must be there."""
        if tree.last_zxid < first_zxid - 1:
            raise DamagedFile(
                f"{self._folder / name} starts at {first_zxid:#x}, but the writes after "
                f"{tree.last_zxid:#x} are missing"
            )

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
        path = self._folder / f"{_JOURNAL_PREFIX}{first_zxid:016x}"
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

    def _names(self, prefix: str) -> list[tuple[int, str]]:
        """(zxid, name) of the store's files of one kind, oldest first."""
        found = []
        for name in self._disk.list_dir(self._folder):
            digits = name.removeprefix(prefix)
            if name.startswith(prefix) and len(digits) == 16:
                try:
                    found.append((int(digits, 16), name))
                except ValueError:
                    continue
        return sorted(found)
