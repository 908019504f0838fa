"""Producer state from `.snapshot` files and the batches after them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.runtime import Disk
from ottla.storage import batch_scan
from ottla.storage import segment as segments
from ottla.storage.producer_state import ProducerState, SnapshotDamaged
from ottla.storage.replay import replay_batch
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from ottla.storage.log import Log


def snapshot_offsets(disk: Disk, folder: Path) -> list[int]:
    """Offsets of the folder's snapshot files, ascending."""
    suffix = segments.SNAPSHOT_SUFFIX
    return [
        int(name[: -len(suffix)])
        for name in disk.list_dir(folder)
        if name.endswith(suffix) and name[: -len(suffix)].isdigit()
    ]


def newest_snapshot(disk: Disk, folder: Path, start_offset: int, end_offset: int) -> ProducerState:
    """The newest good snapshot in (start, end]; damaged ones are deleted on the way."""
    state = ProducerState()
    for offset in reversed(snapshot_offsets(disk, folder)):
        if not start_offset < offset <= end_offset:
            continue
        path = folder / segments.file_name(offset, segments.SNAPSHOT_SUFFIX)
        try:
            state.load_snapshot(disk.read_bytes(path), offset)
            return state
        except SnapshotDamaged:
            disk.remove(path)
    state.map_end_offset = start_offset
    state.last_snapshot_offset = start_offset
    return state


def load_producers(disk: Disk, folder: Path, parts: Sequence[Segment], log: Log) -> ProducerState:
    """Newest snapshot plus what the log holds after it. Uses descriptors of its own, so that it
    also runs off the event loop while a log is being loaded."""
    state = state_at(disk, folder, parts, log.start_offset, log.end_offset)
    state.replicated_up_to(log.high_watermark)
    return state


def state_at(
    disk: Disk, folder: Path, parts: Sequence[Segment], start_offset: int, end_offset: int
) -> ProducerState:
    """The producers' state at a segment's base or at the log's end."""
    state = newest_snapshot(disk, folder, start_offset, end_offset)
    for number, segment in enumerate(parts):
        following = parts[number + 1].base_offset if number + 1 < len(parts) else end_offset
        is_behind = following <= state.map_end_offset
        if not is_behind and segment.base_offset < end_offset and segment.size:
            replay_segment(disk, segment, state)
    state.map_end_offset = end_offset
    return state


def replay_segment(disk: Disk, segment: Segment, state: ProducerState) -> list[AbortedTransaction]:
    """Adds what the segment holds after the state; the transactions that were aborted in it."""
    from_offset = state.map_end_offset
    aborted: list[AbortedTransaction] = []
    file = disk.open(segment.path(segments.LOG_SUFFIX))
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
