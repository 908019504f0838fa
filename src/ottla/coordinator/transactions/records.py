"""The records of `__transaction_state`: the only place that encodes and decodes them.

Key and value start with an int16 version; both are written in version 0 (TransactionLogKey,
TransactionLogValue). A null value deletes the transactional id.
"""

from __future__ import annotations

import logging

from ottla.coordinator.transactions.transaction import NO_EPOCH, State, Step, Transaction
from ottla.coordinator.versioned import (
    VERSION_BYTES,
    RecordFormatError,
    encode_versioned,
    read_version,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from ottla.wire.codec import WireError

logger = logging.getLogger(__name__)

_VERSION = 0


def encode_key(transactional_id: str) -> bytes:
    return encode_versioned(m.TransactionLogKey(transactional_id=transactional_id), _VERSION)


def encode_value(step: Step) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(step.partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    value = m.TransactionLogValue(
        producer_id=step.producer_id,
        producer_epoch=step.producer_epoch,
        transaction_timeout_ms=step.timeout_ms,
        transaction_status=step.state,
        transaction_partitions=None
        if step.state is State.EMPTY
        else [
            m.TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=partitions)
            for topic, partitions in by_topic.items()
        ],
        transaction_last_update_timestamp_ms=step.update_ms,
        transaction_start_timestamp_ms=step.start_ms,
    )
    return encode_versioned(value, _VERSION)


def decode_key(data: bytes) -> str | None:
    """None for a key of a later Kafka, which is skipped."""
    if read_version(data) != _VERSION:
        return None
    try:
        key, _ = m.TransactionLogKey.decode(data, _VERSION, VERSION_BYTES)
    except WireError as error:
        raise RecordFormatError(f"transaction key: {error}") from error
    return key.transactional_id


def decode_value(transactional_id: str, data: bytes) -> Transaction:
    version = read_version(data)
    if not 0 <= version <= m.TransactionLogValue.MAX_VERSION:
        raise RecordFormatError(f"transaction value of unknown version {version}")
    try:
        value, _ = m.TransactionLogValue.decode(data, version, VERSION_BYTES)
        state = State(value.transaction_status)
    except (WireError, ValueError) as error:
        raise RecordFormatError(f"transaction value of {transactional_id}: {error}") from error
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        last_producer_epoch=NO_EPOCH,
    )


class TransactionReplay:
    """Rebuilds the transactions of one partition, in log order (`shards.Replay`)."""

    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}

    def absorb(self, data: memoryview) -> int | None:
        next_offset = None
        for header, batch in records.iter_batches(data):
            if not header.is_control:
                for record in records.iter_records(batch):
                    self._apply(record)
            next_offset = header.next_offset
        return next_offset

    def _apply(self, record: records.Record) -> None:
        try:
            transactional_id = None if record.key is None else decode_key(record.key)
            if transactional_id is None:
                return
            if record.value is None:
                self._transactions.pop(transactional_id, None)
            else:
                self._transactions[transactional_id] = decode_value(transactional_id, record.value)
        except RecordFormatError as error:
            # One foreign record must not keep every other producer from its transactions.
            logger.error("The record at offset %d is skipped: %s", record.offset, error)

    def entries(self) -> dict[str, Transaction]:
        return self._transactions
