"""Telling the producers' state what a batch in the log did (ProducerStateManager.update)."""

from __future__ import annotations

from ottla.storage.producers.state import EndMarker, ProducerBatch, ProducerState
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire import records
from ottla.wire.primitives import Buffer
from ottla.wire.records import BatchHeader


def replay_batch(
    producers: ProducerState, header: BatchHeader, batch: Buffer
) -> AbortedTransaction | None:
    """`batch` is needed for control batches only; others are known by their header. The answer
    belongs in the transaction index of the batch's segment."""
    if header.is_control:
        if header.record_count == 0:
            return None  # emptied by compaction: nothing of its transaction is left
        marker = records.parse_marker(batch)
        if not (marker.is_commit or marker.is_abort):
            return None
        return producers.record_marker(
            header.producer_id,
            header.producer_epoch,
            EndMarker(
                header.base_offset,
                marker.is_abort,
                marker.coordinator_epoch,
                header.max_timestamp,
            ),
        )
    producers.record(
        header.producer_id,
        header.producer_epoch,
        remembered(header),
        transactional=header.is_transactional,
    )
    return None


def remembered(header: BatchHeader) -> ProducerBatch:
    return ProducerBatch(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )
