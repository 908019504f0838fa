"""One pass of compaction over a log (Cleaner): reads the dirty part for the newest offset of every
key, then writes segments anew without what is superseded.

Runs off the event loop, a slice at a time: a pass is a generator that yields after a bounded
amount of work, with files of its own. Putting the outcome in the place of the old segments is done
by `cleaner`, on the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.runtime import Disk, File
from ottla.storage.compaction.batch_filter import emptied, retained
from ottla.storage.compaction.offset_map import OffsetMap
from ottla.storage.compaction.record_spans import plain_records, record_spans
from ottla.storage.compaction.transactions import CleanedTransactions
from ottla.storage.segment import transaction_index
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.segment.index import OffsetIndex, TimeIndex
from ottla.storage.segment.index_builder import IndexBuilder
from ottla.storage.segment.renamed_files import CLEANED_SUFFIX
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire import records
from ottla.wire.primitives import Buffer, WireError
from ottla.wire.records import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader

# A slice ends after this much: about two milliseconds, in which the event loop may not run.
_SLICE_RECORDS = 1000
_SLICE_BYTES = 256 * 1024
_WRITE_BYTES = 1024 * 1024


class Source(NamedTuple):
    """A segment as a pass sees it; `end_offset` is the next segment's base."""

    base_offset: int
    end_offset: int
    path: Path
    size: int


class LastWrite(NamedTuple):
    """What keeps a producer's state alive: its last batch, or else a marker of its epoch."""

    last_data_offset: int | None
    epoch: int


class Cleaned(NamedTuple):
    """A segment that was written; its files end in `.cleaned` and are synced."""

    base_offset: int
    size: int
    offsets: OffsetIndex
    times: TimeIndex
    suffixes: tuple[str, ...]


class Work:
    """How much was done since the last slice ended."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.bytes = 0
        self.records = 0

    def add(self, size: int, record_count: int) -> bool:
        """True if the slice is over."""
        self.bytes += size
        self.records += record_count
        return self.records >= _SLICE_RECORDS or self.bytes >= _SLICE_BYTES

    def take(self) -> int:
        done, self.bytes, self.records = self.bytes, 0, 0
        return done


def map_keys(
    disk: Disk,
    sources: Sequence[Source],
    start_offset: int,
    aborted: Sequence[AbortedTransaction],
    newest: OffsetMap,
    buffer_bytes: int,
) -> Iterator[int]:
    """Fills the map from `start_offset` on until the sources end or it is full; yields bytes read
    per slice (Cleaner.buildOffsetMap). `aborted` are those whose marker lies at `start_offset` or
    later, in whatever segment."""
    transactions = CleanedTransactions(aborted)
    newest.covered_to(start_offset)
    work = Work()
    for source in sources:
        for header, batch in _batches(disk, source, buffer_bytes):
            if header.last_offset >= start_offset:
                if not _map_batch(header, batch, transactions, start_offset, newest):
                    yield work.take()
                    return
                newest.covered_to(header.next_offset)
            if work.add(header.size, header.record_count):
                yield work.take()
        # Compaction may have left a gap at the segment's end.
        newest.covered_to(source.end_offset)
    yield work.take()


def _map_batch(
    header: BatchHeader,
    batch: Buffer,
    transactions: CleanedTransactions,
    start_offset: int,
    newest: OffsetMap,
) -> bool:
    if header.is_control:
        transactions.drops_marker(header, batch)
        return True
    if transactions.drops_data(header):
        return True
    base = header.base_offset
    spans = record_spans(plain_records(batch, header), header.record_count)
    for _, _, _, offset_delta, key, _ in spans:
        offset = base + offset_delta
        if key is not None and offset >= start_offset and not newest.put(key, offset):
            return False
    return True


class GroupRewrite:
    """Writes the segments of one group as one (Cleaner.cleanSegments); `cleaned` is the outcome
    once `run` is exhausted."""

    def __init__(
        self,
        disk: Disk,
        group: Sequence[Source],
        newest: OffsetMap,
        transactions: CleanedTransactions,
        *,
        last_writes: Mapping[int, LastWrite],
        delete_horizon_ms: int,
        index_interval_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self._disk = disk
        self._group = group
        self._newest = newest
        self._transactions = transactions
        self._last_writes = last_writes
        self._delete_horizon_ms = delete_horizon_ms
        self._buffer_bytes = buffer_bytes
        self._base_offset = group[0].base_offset
        self._indexes = IndexBuilder(self._base_offset, index_interval_bytes)
        self._position = 0
        self._pending = bytearray()
        self.cleaned: Cleaned | None = None

    def path(self, suffix: str) -> Path:
        name = file_name(self._base_offset, suffix)
        return self._group[0].path.with_name(name + CLEANED_SUFFIX)

    def run(self) -> Iterator[int]:
        """Yields bytes read and written per slice."""
        file = self._disk.open(self.path(LOG_SUFFIX))
        work = Work()
        try:
            file.truncate(0)
            for source in self._group:
                retain = self._disk.mtime_ms(source.path) > self._delete_horizon_ms
                for header, batch in _batches(self._disk, source, self._buffer_bytes):
                    kept = self._outcome(header, batch, retain)
                    if kept is not None:
                        self._write(file, kept)
                    size = header.size + (0 if kept is None else len(kept))
                    if work.add(size, header.record_count):
                        yield work.take()
            self._flush(file)
            file.sync()
        finally:
            file.close()
        self._finish()
        yield work.take()

    def _outcome(self, header: BatchHeader, batch: Buffer, retain_deletes: bool) -> Buffer | None:
        """What is left of a batch; None for nothing (Cleaner.cleanInto)."""
        if header.is_control:
            discard = self._transactions.drops_marker(header, batch) and not retain_deletes
            kept = None if discard else batch
        elif self._transactions.drops_data(header):
            kept = None
        else:
            kept = retained(batch, header, self._newest, retain_deletes=retain_deletes)
        if kept is None and self._is_last_write(header):
            return emptied(batch, header)
        if kept is batch and header.record_count == 0 and not self._is_last_write(header):
            return None
        return kept

    def _is_last_write(self, header: BatchHeader) -> bool:
        last = self._last_writes.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _write(self, file: File, batch: Buffer) -> None:
        self._indexes.add(self._position, records.read_header(batch))
        self._position += len(batch)
        self._pending += batch
        if len(self._pending) >= _WRITE_BYTES:
            self._flush(file)

    def _flush(self, file: File) -> None:
        file.append(self._pending)
        self._pending = bytearray()

    def _finish(self) -> None:
        offsets, times = self._indexes.finish()
        contents = {
            INDEX_SUFFIX: offsets.encode(),
            TIME_INDEX_SUFFIX: times.encode(),
        }
        aborted, self._transactions.index = self._transactions.index, []
        if aborted:
            contents[TXN_INDEX_SUFFIX] = transaction_index.encode(aborted)
        mtime_ms = self._disk.mtime_ms(self._group[-1].path)
        for suffix, data in contents.items():
            file = self._disk.open(self.path(suffix))
            try:
                file.truncate(0)
                file.append(data)
                file.sync()
            finally:
                file.close()
        # The age of tombstones is told by this (and kept when segments are merged again).
        self._disk.set_mtime_ms(self.path(LOG_SUFFIX), mtime_ms)
        suffixes = (*contents, LOG_SUFFIX)
        self.cleaned = Cleaned(self._base_offset, self._position, offsets, times, suffixes)


def _batches(
    disk: Disk, source: Source, buffer_bytes: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Whole, checked batches of a segment; raises LogDamaged."""
    file = disk.open(source.path, create=False)
    window_bytes = max(buffer_bytes, HEADER_BYTES)
    position = 0
    try:
        while position < source.size:
            window = memoryview(file.read_at(min(window_bytes, source.size - position), position))
            used = 0
            while len(window) - used >= HEADER_BYTES:
                header = _header(window, used, position + used)
                if used + header.size > len(window):
                    break
                batch = window[used : used + header.size]
                if not records.crc_is_valid(batch):
                    raise LogDamaged(position + used, "a batch fails its CRC")
                yield header, batch
                used += header.size
            if used == 0:
                if len(window) < LOG_OVERHEAD_BYTES or window_bytes >= source.size - position:
                    raise LogDamaged(position, "a batch is cut off")
                window_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(window[8:12], "big")
            position += used
    finally:
        file.close()


def _header(window: memoryview, used: int, position: int) -> BatchHeader:
    try:
        return records.read_header(window, used)
    except WireError as error:
        raise LogDamaged(position, str(error)) from None
