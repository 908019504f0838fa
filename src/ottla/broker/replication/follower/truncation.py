"""Where a follower cuts its log after its leader told the end of an epoch (KIP-101, KIP-595)."""

from __future__ import annotations

from pathlib import Path

from ottla.storage.log.log import Log
from ottla.wire import records


def truncation_offset(log: Log, leader_epoch: int, leader_end: int) -> int:
    """The follower's new end (AbstractFetcherThread.getOffsetTruncationState).

    `leader_epoch` is the largest epoch at or below the follower's last one that the leader knows,
    `leader_end` its end there.
    """
    if leader_end < 0:
        # The leader knows nothing of that epoch: only what is committed is safe.
        return log.high_watermark
    if leader_epoch < 0:
        return min(leader_end, log.end_offset)
    own_epoch, own_end = log.epochs.end_offset_for(leader_epoch, log.end_offset)
    if own_end < 0:
        return min(leader_end, log.end_offset)
    if own_epoch != leader_epoch:
        # The leader's epoch is not in this log: cut at the end of the largest smaller one. The
        # next fetch names that epoch, so the answer narrows down further if need be.
        return min(own_end, log.end_offset)
    return min(own_end, leader_end, log.end_offset)


def start_at_batch(log: Log, data: memoryview) -> list[Path]:
    """An empty log may have been started inside the first batch it gets, at a log start that
    DeleteRecords set: it starts over at the batch. Files to remove later
    (Partition.appendRecordsToFollowerOrFutureReplica)."""
    if log.end_offset == log.start_offset and len(data) >= records.HEADER_BYTES:
        first = records.read_header(data)
        if first.base_offset < log.end_offset <= first.last_offset:
            return log.truncate_fully_and_start_at(first.base_offset)
    return []
