"""What the store's files say at a start, and whether all of it is there. Changes nothing.

A crash may tear the last batch of the newest journal, which nobody was promised; it is cut off.
Anything else that cannot be read is damage, and acknowledged writes went with it: then the store
does not start, and says where it is, what is lost and how to go on (ADR 27).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ottla.runtime import Disk
from ottla.zk.server import records
from ottla.zk.server.records import DamagedFile, Gap
from ottla.zk.server.tree import Tree, Trigger

JOURNAL_PREFIX = "journal."
SNAPSHOT_PREFIX = "snapshot."
# The zxid of the last clean stop: writes up to there were on disk, then and for ever.
NOTE = "clean-stop"
# What a disk writes whole or not at all.
_SECTOR_BYTES = 512


def numbered(disk: Disk, folder: Path, prefix: str) -> list[tuple[int, str]]:
    """(zxid, name) of the store's files of one kind, oldest first."""
    found = []
    for name in disk.list_dir(folder):
        digits = name.removeprefix(prefix)
        if name.startswith(prefix) and len(digits) == 16:
            try:
                found.append((int(digits, 16), name))
            except ValueError:
                continue
    return sorted(found)


@dataclass(slots=True)
class Recovered:
    """The tree, and what is to be done before the next write."""

    tree: Tree = field(default_factory=Tree)
    # The journal to go on with, from `end`; None where a new one is to be begun.
    newest: Path | None = None
    end: int = 0
    # Unusual, but nothing is lost: one line each for the log.
    remarks: list[str] = field(default_factory=list)
    unreadable_snapshots: list[str] = field(default_factory=list)
    # What is damaged and what went with it; only where the reader was told to go on.
    losses: list[str] = field(default_factory=list)


class Recovery:
    """One reading of a folder. With `salvage` damage is noted and passed over instead of raised."""

    def __init__(self, disk: Disk, folder: Path, *, salvage: bool = False) -> None:
        self._disk = disk
        self._folder = folder
        self._salvage = salvage
        self._found = Recovered()
        self._zxid = 0

    def read(self) -> Recovered:
        """Blocking. Raises DamagedFile."""
        found = self._found
        journals = numbered(self._disk, self._folder, JOURNAL_PREFIX)
        snapshots = numbered(self._disk, self._folder, SNAPSHOT_PREFIX)
        noted = self._noted_zxid()
        base_zxid = self._zxid = self._read_snapshot(snapshots, journals)
        if snapshots and all(first != snapshots[-1][0] + 1 for first, _ in journals):
            name = f"{JOURNAL_PREFIX}{snapshots[-1][0] + 1:016x}"
            self._lose(f"{self._folder / name} is missing, and whatever was written into it")
        for index, (first_zxid, name) in enumerate(journals):
            is_last = index + 1 == len(journals)
            # A journal wholly before the snapshot is only kept for the older snapshot.
            if not is_last and journals[index + 1][0] <= base_zxid + 1:
                continue
            if first_zxid > self._zxid + 1:
                lost = _range(self._zxid + 1, first_zxid - 1)
                self._lose(f"{self._folder / name} begins at {first_zxid:#x}: {lost} missing")
            self._read_journal(self._folder / name, first_zxid, base_zxid, is_last=is_last)
        if noted > self._zxid:
            where = (
                f"{found.newest} ends at byte {found.end}"
                if found.newest
                else (f"there is no journal in {self._folder}")
            )
            self._lose(
                f"{where}, but the last clean stop was at {noted:#x}: "
                f"{_range(self._zxid + 1, noted)} missing"
            )
        # After a salvage the lost numbers are not given out again.
        found.tree.last_zxid = max(self._zxid, noted if self._salvage else 0)
        return found

    def _noted_zxid(self) -> int:
        path = self._folder / NOTE
        if not self._disk.exists(path):
            return 0
        try:
            return records.decode_note(self._disk.read_bytes(path))
        except DamagedFile as error:
            self._found.remarks.append(f"{path} is not used: {error}")
            return 0

    def _read_snapshot(
        self, snapshots: list[tuple[int, str]], journals: list[tuple[int, str]]
    ) -> int:
        """The zxid of the newest one that can be read; 0 where the journals have it all."""
        found = self._found
        for zxid, name in reversed(snapshots):
            try:
                found.tree = records.decode_snapshot(self._disk.read_bytes(self._folder / name))
                if found.tree.last_zxid != zxid:
                    # Another one under this name: what was written between the two is not in it.
                    held, found.tree = found.tree.last_zxid, Tree()
                    raise DamagedFile(f"it is the snapshot of {held:#x}")
                return zxid
            except (DamagedFile, OSError) as error:
                found.remarks.append(f"{self._folder / name} cannot be read: {error}")
                found.unreadable_snapshots.append(name)
        if snapshots and (not journals or journals[0][0] > 1):
            self._lose(f"no snapshot in {self._folder} can be read")
        return 0

    def _read_journal(self, path: Path, first_zxid: int, base_zxid: int, *, is_last: bool) -> None:
        found = self._found
        data = self._disk.read_bytes(path)
        magic = records.JOURNAL_MAGIC
        if data[: len(magic)] != magic:
            if is_last and len(data) <= len(magic) and magic.startswith(data.rstrip(b"\0")):
                # The crash came between making the file and its first bytes.
                found.newest = None
                return
            self._lose(f"{path} is damaged at byte 0: this is not a journal of this store")
        found.newest, found.end = path, len(magic)
        ignored: list[Trigger] = []
        is_marked = False
        for item in _walk(path, data, len(magic), first_zxid - 1):
            if isinstance(item, Gap):
                if self._ends_at(path, data, item, is_last=is_last, is_marked=is_marked):
                    return
                continue
            zxid, time_ms, txns, end = item
            is_marked = is_marked or (found.end == len(magic) and not txns)
            found.end = end
            self._zxid = max(self._zxid, zxid)
            if zxid > base_zxid:
                for txn in txns:
                    found.tree.apply(zxid, time_ms, txn, ignored)
                ignored.clear()

    def _ends_at(
        self, path: Path, data: bytes, gap: Gap, *, is_last: bool, is_marked: bool
    ) -> bool:
        """Whether the journal ends in front of the gap: then a crash has torn its last batch."""
        size = gap.end - gap.start
        if not gap.loses_writes:
            self._found.remarks.append(f"{path}: {size} damaged bytes at {gap.start} held no write")
            return False
        writes, has_mark = (0, False) if self._salvage else _behind(data, gap)
        is_torn = gap.after == 0 or (
            is_marked and not has_mark and not self._salvage and _has_unwritten_sector(data, gap)
        )
        if is_last and is_torn and not gap.unclear:
            size = len(data.rstrip(b"\0")) - gap.start
            self._found.remarks.append(
                f"{path}: a crash cut the last write short at byte {gap.start}; {size} bytes go"
            )
            return True
        lost = (
            _range(gap.before + 1, gap.after - 1)
            if gap.after
            else f"the writes after {gap.before:#x} are"
        )
        behind = f" ({writes} later ones can still be read)" if writes else ""
        self._lose(f"{path} is damaged at byte {gap.start}: {lost} lost{behind}")
        return False

    def _lose(self, what: str) -> None:
        if self._salvage:
            self._found.losses.append(what)
            return
        raise DamagedFile(
            "; ".join([what, *self._found.remarks])
            + f". Bring back a copy of the folder, or go on without what is lost: "
            f"`ottla zookeeper --repair --data {self._folder}` (the old files are kept)"
        )


def _walk(path: Path, data: bytes, start: int, zxid: int) -> Iterator[records.Record | Gap]:
    try:
        yield from records.walk(data, start, zxid)
    except DamagedFile as error:
        raise DamagedFile(f"{path}: {error}") from None


def _behind(data: bytes, gap: Gap) -> tuple[int, bool]:
    """How many writes can be read behind a gap, and whether a later batch is among them."""
    writes, has_mark = 0, False
    for item in records.walk(data, gap.end, gap.after - 1) if gap.after else ():
        if isinstance(item, Gap):
            continue
        if item[2]:
            writes += 1
        elif item[0] > gap.before:
            has_mark = True
    return writes, has_mark


def _has_unwritten_sector(data: bytes, gap: Gap) -> bool:
    """Whether the gap is such as a power cut leaves it that came while a batch was on its way:
    sectors that were not reached yet hold the zeros of before."""
    aligned = -(-gap.start // _SECTOR_BYTES) * _SECTOR_BYTES
    if gap.start < aligned <= gap.end and not any(data[gap.start : aligned]):
        return True
    unwritten = bytes(_SECTOR_BYTES)
    return any(
        data[start : start + _SECTOR_BYTES] == unwritten
        for start in range(aligned, gap.end - _SECTOR_BYTES + 1, _SECTOR_BYTES)
    )


def _range(first: int, last: int) -> str:
    if first == last:
        return f"the write {first:#x} is"
    return f"{last - first + 1} writes ({first:#x} to {last:#x}) are"
