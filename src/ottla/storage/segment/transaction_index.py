"""Aborted transactions of one segment, as Kafka's `.txnindex` file holds them (TransactionIndex).

A segment without aborted transactions has no such file. Entries stand in the order of their
markers; each is written when its marker is appended and rebuilt with the segment's other indexes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Disk
from ottla.storage.segment.file_names import TXN_INDEX_SUFFIX, file_name
from ottla.storage.segment.index import IndexDamaged

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """`last_offset` is the marker's; `last_stable_offset` is where readers get to with it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(data: bytes) -> list[AbortedTransaction]:
    """Raises IndexDamaged for anything that a broker would not have written."""
    if len(data) % ENTRY_BYTES:
        raise IndexDamaged(f"{len(data)} bytes are not a multiple of {ENTRY_BYTES}")
    entries: list[AbortedTransaction] = []
    last_offset = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        # A later version may only add meaning to what is there already.
        if version < 0 or entry.last_offset <= last_offset or entry.first_offset < 0:
            raise IndexDamaged(f"{entry} of version {version} after offset {last_offset}")
        last_offset = entry.last_offset
        entries.append(entry)
    return entries


def collect(
    entries: Iterable[AbortedTransaction],
    offset: int,
    upper_bound: int,
    found: list[AbortedTransaction],
) -> bool:
    """Adds what a reader of [offset, upper_bound) must know; True if no later entry can matter
    (TransactionIndex.collectAbortedTxns)."""
    for entry in entries:
        if entry.last_offset >= offset and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            return True
    return False


class TransactionIndex:
    """The file of one segment. It is read on first use, and has every entry as soon as this has."""

    __slots__ = ("_aborted", "_base_offset", "_disk", "folder")

    def __init__(self, disk: Disk, folder: Path, base_offset: int, *, is_empty: bool) -> None:
        self._disk = disk
        self.folder = folder
        self._base_offset = base_offset
        # None = not read yet.
        self._aborted: list[AbortedTransaction] | None = [] if is_empty else None

    @property
    def path(self) -> Path:
        return self.folder / file_name(self._base_offset, TXN_INDEX_SUFFIX)

    def aborted(self) -> list[AbortedTransaction]:
        """Transactions whose abort marker is in the segment, by marker; not to be changed."""
        if self._aborted is None:
            path = self.path
            data = self._disk.read_bytes(path) if self._disk.exists(path) else b""
            try:
                self._aborted = decode(data)
            except IndexDamaged as damage:
                # Recovery rebuilds it at the next start; until then nobody may guess.
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{path}: {damage}") from None
        return self._aborted

    def add(self, entry: AbortedTransaction) -> Path:
        """Returns the file that this was written to; the log's next flush syncs it."""
        entries = self.aborted()
        path = self.path
        file = self._disk.open(path)
        try:
            # Not at the file's end: a failed write may have left bytes there.
            file.write_at(encode((entry,)), len(entries) * ENTRY_BYTES)
        finally:
            file.close()
        entries.append(entry)
        return path

    def replace(self, entries: Sequence[AbortedTransaction]) -> None:
        """Other entries in the place of all; none leave no file."""
        path = self.path
        if entries:
            file = self._disk.open(path)
            try:
                file.truncate(0)
                file.append(encode(entries))
                file.sync()
            finally:
                file.close()
        else:
            self._disk.remove(path)
        self._aborted = list(entries)

    def truncate(self, offset: int) -> None:
        """Forgets transactions whose marker lies at the offset or behind it."""
        entries = self.aborted()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) < len(entries):
            self.replace(kept)

    def release(self) -> None:
        """Gives back the memory of what the file has."""
        if self._aborted:
            self._aborted = None

    def known_empty(self) -> None:
        """The segment has no aborted transaction, so that there is nothing to read."""
        self._aborted = []
