"""Telling the producers' state what a batch in the log did (ProducerStateManager.update)."""

from __future__ import annotations

from ottla.storage.producer_state import ProducerBatch, ProducerState
from ottla.wire import records
from ottla.wire.primitives import Buffer
from ottla.wire.records import BatchHeader


def replay_batch(producers: ProducerState, header: BatchHeader, batch: Buffer) -> None:
    """`batch` is needed for control batches only; others are known by their header."""
    if header.is_control:
        marker = records.parse_marker(batch)
        if marker.is_commit or marker.is_abort:
            producers.record_marker(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                header.max_timestamp,
            )
        return
    producers.record(
        header.producer_id,
        header.producer_epoch,
        ProducerBatch(
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        ),
        transactional=header.is_transactional,
    )
