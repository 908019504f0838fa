"""Producer state from `.snapshot` files and the batches after them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.runtime import Disk
from ottla.storage.producers.replay import remembered, replay_batch
from ottla.storage.producers.state import ProducerState, SnapshotDamaged
from ottla.storage.segment import batch_scan
from ottla.storage.segment.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name, offsets_among
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from ottla.wire import records

logger = logging.getLogger(__name__)
# What is read of the log before a snapshot.
_RECALLED_BYTES = batch_scan.SCAN_WINDOW_BYTES


def snapshot_offsets(disk: Disk, folder: Path) -> list[int]:
    """Offsets of the folder's snapshot files, ascending."""
    return offsets_among(disk.list_dir(folder), SNAPSHOT_SUFFIX)


def newest_snapshot(disk: Disk, folder: Path, start_offset: int, end_offset: int) -> ProducerState:
    """The newest good snapshot in (start, end]; damaged ones are deleted on the way."""
    state = ProducerState()
    for offset in reversed(snapshot_offsets(disk, folder)):
        if not start_offset < offset <= end_offset:
            continue
        path = folder / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            state.load_snapshot(disk.read_bytes(path), offset)
            return state
        except SnapshotDamaged:
            disk.remove(path)
    state.map_end_offset = start_offset
    state.last_snapshot_offset = start_offset
    return state


def state_at(
    disk: Disk, folder: Path, parts: Sequence[Segment], start_offset: int, end_offset: int
) -> ProducerState:
    """The producers' state at a segment's base or at the log's end: the newest snapshot plus what
    the log holds after it. Uses descriptors of its own, so that it also runs off the event loop
    while a log is being loaded."""
    state = newest_snapshot(disk, folder, start_offset, end_offset)
    _recall_batches(disk, parts, state)
    for number, segment in enumerate(parts):
        following = parts[number + 1].base_offset if number + 1 < len(parts) else end_offset
        is_behind = following <= state.map_end_offset
        if not is_behind and segment.base_offset < end_offset and segment.size:
            try:
                replay_segment(disk, segment, state)
            except batch_scan.LogDamaged as damage:
                # Whoever reads there is told; what comes after tells most of the producers again.
                path = segment.path(LOG_SUFFIX)
                logger.warning("%s: producers are not read past it: %s", path, damage)
    state.map_end_offset = end_offset
    return state


def _recall_batches(disk: Disk, parts: Sequence[Segment], state: ProducerState) -> None:
    """Adds the batches before the last one of each producer to what a snapshot holds, as far as
    they are near its place in the log.

    Kafka goes without: there a batch that is sent again after such a restart, and is not the last
    one, is out of order. It has one unanswered batch of a connection in its log, we have several.
    """
    if not len(state):
        return
    offset, budget = state.map_end_offset, _RECALLED_BYTES
    for segment in reversed(parts):
        if segment.base_offset >= offset or not segment.size:
            continue
        if budget <= 0:
            break
        try:
            located = segment.locate(offset)
            end = segment.size if located is None else located[0]
            start = segment.indexes().batch_start(max(0, end - budget))
            found = _headers_with_sequences(disk, segment, start, end)
        except batch_scan.LogDamaged:
            break  # recovery meets it
        for header in reversed(found):
            state.recall(header.producer_id, header.producer_epoch, remembered(header))
        budget -= end - start


def _headers_with_sequences(
    disk: Disk, segment: Segment, start: int, end: int
) -> list[records.BatchHeader]:
    file = disk.open(segment.path(LOG_SUFFIX))
    try:
        return [
            header
            for _, header in batch_scan.headers(file, start, end)
            if header.producer_id >= 0 and header.base_sequence >= 0 and not header.is_control
        ]
    finally:
        file.close()


def replay_segment(disk: Disk, segment: Segment, state: ProducerState) -> list[AbortedTransaction]:
    """Adds what the segment holds after the state; the transactions that were aborted in it."""
    from_offset = state.map_end_offset
    aborted: list[AbortedTransaction] = []
    file = disk.open(segment.path(LOG_SUFFIX))
    try:
        for position, header in batch_scan.headers(file, 0, segment.size):
            if header.producer_id < 0 or header.base_offset < from_offset:
                continue
            batch = file.read_at(header.size, position) if header.is_control else b""
            entry = replay_batch(state, header, batch)
            if entry is not None:
                aborted.append(entry)
    finally:
        file.close()
    return aborted
