"""Opening a log that is on disk already (Log.loadSegments, Log.recoverLog).

Runs off the event loop, before anybody uses the log. After a clean stop nothing is scanned; else
every segment from the one that holds the recovery point on is read, its indexes, leader epochs and
producer state are rebuilt, and the log ends at the first bad byte. A power cut can also take the
end of a segment, or all of it, and leave the next one: the log then ends where records are missing.
Compacted logs have such gaps anyway, so there they cannot be told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from ottla.errors import KafkaError
from ottla.runtime import Disk, Runtime
from ottla.storage import checkpoints
from ottla.storage.log import small_logs
from ottla.storage.log.leader_epochs import LeaderEpochs, RetoldEpochs
from ottla.storage.log.log import Log
from ottla.storage.producers import snapshots
from ottla.storage.producers.replay import replay_batch
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment import batch_scan, renamed_files
from ottla.storage.segment.batch_scan import LogDamaged
from ottla.storage.segment.file_names import (
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from ottla.storage.segment.index_builder import IndexBuilder
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET, Segment
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

logger = logging.getLogger(__name__)


def load_log(
    runtime: Runtime,
    open_files: OpenFiles,
    tp: TopicPartition,
    folder: Path,
    settings: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
    high_watermark: int,
    was_compacted: bool = False,
    shared_id: TopicId = ZERO_TOPIC_ID,
) -> Log:
    """The log in `folder`, ready for use; raises OSError where the disk fails. `shared_id` is what
    the data folder's file says of it."""
    disk = runtime.disk
    log = Log(runtime, open_files, tp, folder, settings)
    names = renamed_files.tidy(disk, folder)
    if checkpoints.PARTITION_METADATA in names:
        _read_topic_id(log, disk, clean=clean)
    if ZERO_TOPIC_ID == log.topic_id != shared_id:
        log.topic_id = log.side_files.shared_id = shared_id
    if not recovery_point and not start_offset and not was_compacted and _is_unborn(names):
        return _unborn(log, high_watermark)
    for base_offset in renamed_files.bases_among(names):
        path = folder / file_name(base_offset, LOG_SUFFIX)
        segment = log.segments.opened(
            base_offset,
            disk.size(path),
            index_interval_bytes=settings.index_interval_bytes,
            created_ms=disk.mtime_ms(path),
        )
        log.segments.add(segment)
    epochs = log.side_files.read_epochs()
    log.epochs = _epochs_of_batches(disk, log.segments) if epochs is None else epochs
    log.recovery_point = recovery_point
    log.start_offset = start_offset
    bare = bool(log.segments) and small_logs.is_bare(log, names)
    producers: ProducerState | None = None
    end = None if not clean or (bare and log.active.size) else _clean_end(log)
    if end is None:
        may_have_gaps = was_compacted or settings.compact
        producers = recover(runtime, log, may_have_gaps=may_have_gaps, bare=bare)
    _settle_bounds(log, start_offset, end)
    log.recovery_point = min(log.recovery_point, log.end_offset)
    log.set_high_watermark(high_watermark)
    log.checkpointed_high_watermark = log.high_watermark
    bases = [segment.base_offset for segment in log.segments]
    log.side_files.drop_stray_snapshots(bases, log.end_offset)
    if producers is not None and producers.map_end_offset == log.end_offset:
        log.producers = producers
        producers.replicated_up_to(log.high_watermark)
    elif clean and not snapshots.snapshot_offsets(disk, folder):
        log.producers.clear(log.end_offset)
    else:
        log.producers = snapshots.state_at(
            disk, folder, log.segments, log.start_offset, log.end_offset
        )
        log.producers.replicated_up_to(log.high_watermark)
    log.producers.loaded()
    if clean:
        _check_transaction_indexes(runtime, log)
    elif not bare:
        log.write_snapshot()
    log.release()
    return log


def _read_topic_id(log: Log, disk: Disk, *, clean: bool) -> None:
    log.topic_id = log.side_files.read_topic_id()
    path = log.folder / checkpoints.PARTITION_METADATA
    if log.topic_id == ZERO_TOPIC_ID:
        # Torn by a power cut. Apache Kafka takes a data folder with such a file out of use.
        disk.remove(path)
    elif not clean:
        # A killed process leaves what this one reads, and a power cut may still take it back.
        log.side_files.unsynced.add(path)


def _is_unborn(names: list[str]) -> bool:
    """Whether a folder that holds these names has never had a record."""
    return not names or names == [checkpoints.PARTITION_METADATA]


def _unborn(log: Log, high_watermark: int) -> Log:
    log.segments.start_unmade(log.settings.index_interval_bytes, log.last_flush_ms)
    log.set_high_watermark(high_watermark)
    log.checkpointed_high_watermark = log.high_watermark
    log.producers.clear(0)
    log.producers.loaded()
    return log


def _clean_end(log: Log) -> int | None:
    """Where the log ends, if its last segment is as a clean stop leaves it, as far as a look at its
    end tells."""
    if not log.segments:
        return None
    try:
        log.active.unseal()
        return log.active.next_offset()
    except LogDamaged as damage:
        logger.warning("%s: %s", log.active.path(LOG_SUFFIX), damage)
        return None


def _settle_bounds(log: Log, start_offset: int, end: int | None) -> None:
    """`end` where it is known already."""
    if not log.segments:
        log.segments.start(start_offset, log.settings.index_interval_bytes)
    active = log.active
    active.unseal()
    log.end_offset = active.next_offset() if end is None else end
    if log.end_offset < start_offset:
        log.truncate_fully_and_start_at(start_offset)
    log.start_offset = max(start_offset, log.segments[0].base_offset)
    log.epochs.truncate_from_end(log.end_offset)
    log.epochs.truncate_from_start(log.start_offset)


def recover(
    runtime: Runtime, log: Log, *, may_have_gaps: bool, bare: bool = False
) -> ProducerState | None:
    """Scans from the recovery point's segment on; cuts at the first bad byte, and where records are
    missing between two segments. Returns what the producers' state is at the end of that. A bare
    log stays without side files."""
    parts = log.segments
    if not parts:
        return None
    first = max(
        (n for n, segment in enumerate(parts) if segment.base_offset <= log.recovery_point),
        default=0,
    )
    producers = snapshots.state_at(
        runtime.disk, log.folder, parts, log.start_offset, parts[first].base_offset
    )
    epochs = RetoldEpochs(log.epochs, parts[first].base_offset)
    for number in range(first, len(parts)):
        following = parts[number + 1].base_offset if number + 1 < len(parts) else None
        cut, end = _recover_segment(runtime, parts[number], epochs, producers, following)
        if not bare:
            parts[number].indexes().write()
        is_short = following is not None and end < following and not may_have_gaps
        if cut or is_short:
            logger.warning(
                "%s: segment %d was cut by %d bytes in recovery, the log ends at offset %d",
                log.tp,
                parts[number].base_offset,
                cut,
                end,
            )
            for path in log.drop_segments(number + 1, len(parts)):
                runtime.disk.remove(path)
            break
    if end < log.recovery_point and first > 0:
        # The log was cut since that was written, or has lost what was flushed: nothing is sure.
        log.recovery_point = 0
        return recover(runtime, log, may_have_gaps=may_have_gaps, bare=bare)
    if not bare:
        log.side_files.write_epochs(log.epochs)
    return producers


def _recover_segment(
    runtime: Runtime,
    segment: Segment,
    epochs: RetoldEpochs,
    producers: ProducerState,
    following: int | None,
) -> tuple[int, int]:
    """Rebuilds one segment; returns how many bytes at its end were bad and are gone, and the
    offset after its last record."""
    base, expected = segment.base_offset, segment.base_offset
    indexes = IndexBuilder(base, segment.index_interval_bytes)
    valid = 0
    aborted: list[AbortedTransaction] = []
    file = runtime.disk.open(segment.path(LOG_SUFFIX))
    try:
        size = file.size()
        try:
            for position, header, batch in batch_scan.checked_batches(file, 0, size):
                last_offset = header.base_offset + header.last_offset_delta
                out_of_range = last_offset - base > MAX_RELATIVE_OFFSET or (
                    following is not None and last_offset >= following
                )
                if header.base_offset < expected or out_of_range:
                    raise LogDamaged(position, f"offset {header.base_offset} out of order")
                expected = last_offset + 1
                indexes.add(position, header)
                valid = position + header.size
                epochs.add(header.partition_leader_epoch, header.base_offset, expected)
                if header.producer_id >= 0:
                    ended = replay_batch(producers, header, batch)
                    aborted += [] if ended is None else [ended]
        except LogDamaged as damage:
            logger.warning("%s: %s", segment.path(LOG_SUFFIX), damage)
            file.truncate(valid)
            file.sync()
    finally:
        file.close()
    segment.size = valid
    segment.adopt_indexes(*indexes.finish())
    segment.transactions.replace(aborted)
    producers.map_end_offset = max(producers.map_end_offset, expected)
    return size - valid, expected


def _check_transaction_indexes(runtime: Runtime, log: Log) -> None:
    """A damaged `.txnindex` would show aborted records: it is made again from the log."""
    for segment in log.segments:
        if not runtime.disk.exists(segment.path(TXN_INDEX_SUFFIX)):
            continue
        try:
            segment.transactions.aborted()
        except KafkaError as damage:
            logger.warning("%s", damage)
            state = snapshots.state_at(
                runtime.disk, log.folder, log.segments, log.start_offset, segment.base_offset
            )
            segment.transactions.replace(snapshots.replay_segment(runtime.disk, segment, state))


def _epochs_of_batches(disk: Disk, parts: Iterable[Segment]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for segment in parts:
        file = disk.open(segment.path(LOG_SUFFIX))
        try:
            for _, header in batch_scan.headers(file, 0, segment.size):
                epochs.assign(header.partition_leader_epoch, header.base_offset)
        except LogDamaged:
            break  # recovery, or whoever reads there, meets it
        finally:
            file.close()
    epochs.dirty = True
    return epochs
