"""Logs so small that one read tells everything: they go without side files.

Making a file costs far more than reading a small one, and a broker can have tens of thousands of
logs with a few records each. Such a log has no indexes, no leader epochs and no producer snapshot
on disk as long as nothing else makes them: recovery finds all of it in the records. Apache Kafka
does so by itself for a segment that has no `.index`, even after a clean stop
(Log.loadSegmentFiles).

At a clean stop, what these logs would be read for is noted in one file per data folder. A note
counts only after a clean stop, and only for a log file of the size and time that it names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from ottla.runtime import Disk, Runtime
from ottla.storage import checkpoints
from ottla.storage.checkpoints import CheckpointDamaged
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.log import Log
from ottla.storage.producers.state import ProducerBatch, SnapshotDamaged
from ottla.storage.segment.file_names import LOG_SUFFIX, file_name
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition

NOTES = "small-logs-at-clean-shutdown"
# The usual index.interval.bytes: up to here an offset index has no entry.
SMALL_LOG_BYTES = 4096
_VERSION = 0
# In the place of a file's time: no record came, and so there is none.
NO_FILE = -1


class Note(NamedTuple):
    """All that a start needs to know of a small log."""

    folder: str
    topic_id: str
    base_offset: int
    size: int
    mtime_ms: int
    end_offset: int
    max_timestamp: int
    max_timestamp_offset: int
    first_timestamp: int | None
    epochs: list[tuple[int, int]]
    producers: str  # a snapshot file in hex; empty where there are none
    # What a snapshot does not hold: producer, epoch, batch; each producer's last but one first.
    earlier_batches: list[tuple[int, ...]]
    is_id_shared: bool = False  # see `SideFiles`


def is_bare(log: Log, names: Collection[str]) -> bool:
    """Whether a log is small and its folder, which holds these names, has no side files."""
    if len(log.segments) != 1 or log.active.size > SMALL_LOG_BYTES:
        return False
    own = file_name(log.active.base_offset, LOG_SUFFIX)
    return all(name in (own, checkpoints.PARTITION_METADATA) for name in names)


def take_note(log: Log, disk: Disk) -> Note:
    """Of a bare log that nobody uses any more."""
    active = log.active
    return Note(
        log.folder.name,
        log.topic_id.hex(),
        active.base_offset,
        active.size,
        NO_FILE if active.is_unmade else disk.mtime_ms(active.path(LOG_SUFFIX)),
        log.end_offset,
        *active.bounds_in_time(),
        log.epochs.entries(),
        log.producers.encode_snapshot().hex() if len(log.producers) else "",
        [
            (producer_id, producer.epoch, *batch)
            for producer_id, producer in log.producers.items()
            for batch in list(producer.batches)[-2::-1]
        ],
        log.side_files.shared_id is not None,
    )


def encode_notes(notes: Iterable[Note]) -> bytes:
    return json.dumps({"version": _VERSION, "logs": list(notes)}, separators=(",", ":")).encode()


def decode_notes(data: bytes) -> dict[str, Note]:
    """By the name of the log's folder."""
    try:
        document = json.loads(data)
        if document["version"] != _VERSION:
            raise CheckpointDamaged(f"unrecognised version {document['version']}")
        return {fields[0]: Note(*fields) for fields in document["logs"]}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CheckpointDamaged(f"malformed {NOTES}: {error}") from None


def _found(disk: Disk, data_dir: Path, note: Note) -> tuple[int, int]:
    """Size and time of its log file."""
    try:
        name = file_name(note.base_offset, LOG_SUFFIX)
        return disk.size_and_mtime_ms(data_dir, f"{note.folder}/{name}")
    except FileNotFoundError:
        return 0, NO_FILE


def load_noted(
    runtime: Runtime,
    open_files: OpenFiles,
    tp: TopicPartition,
    data_dir: Path,
    settings: LogConfig,
    note: Note,
    *,
    start_offset: int,
    high_watermark: int,
) -> Log | None:
    """The log as it was closed, without reading it; None where it is not the one noted."""
    try:
        is_same = _found(runtime.disk, data_dir, note) == (note.size, note.mtime_ms)
        topic_id, snapshot = bytes.fromhex(note.topic_id), bytes.fromhex(note.producers)
    except (NotADirectoryError, ValueError):
        return None
    if not is_same or start_offset > note.end_offset:
        return None
    folder = data_dir / note.folder
    log = Log(runtime, open_files, tp, folder, settings, data_dir=data_dir)
    segment = log.segments.opened(
        note.base_offset,
        note.size,
        index_interval_bytes=settings.index_interval_bytes,
        created_ms=log.last_flush_ms if note.mtime_ms == NO_FILE else note.mtime_ms,
        sealed=False,
        unmade=note.mtime_ms == NO_FILE,
    )
    log.topic_id = topic_id
    log.side_files.shared_id = topic_id if note.is_id_shared else None
    log.segments.add(segment)
    log.start_offset = max(start_offset, note.base_offset)
    log.end_offset = log.recovery_point = note.end_offset
    segment.adopt_bounds_in_time(
        note.max_timestamp, note.max_timestamp_offset, note.first_timestamp
    )
    log.epochs = LeaderEpochs(note.epochs)
    # No file has them; they are the log's own once more of it is made durable.
    log.epochs.dirty = bool(note.epochs)
    log.epochs.truncate_from_end(log.end_offset)
    log.epochs.truncate_from_start(log.start_offset)
    log.set_high_watermark(high_watermark)
    log.checkpointed_high_watermark = log.high_watermark
    if not snapshot:
        log.producers.clear(log.end_offset)
        return log
    try:
        log.producers.load_snapshot(snapshot, log.end_offset)
        for producer_id, epoch, *batch in note.earlier_batches:
            log.producers.recall(producer_id, epoch, ProducerBatch(*batch))
    except (SnapshotDamaged, TypeError, ValueError):
        return None
    log.producers.replicated_up_to(log.high_watermark)
    log.producers.loaded()
    return log
