"""From a client's bytes to what a leader writes: checks, duplicates, offsets, timestamps."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append import checks
from ottla.storage.append.checks import Batch, Origin
from ottla.storage.append.inner import examined, needs_records
from ottla.storage.append.steps import Steps
from ottla.storage.append.up_conversion import convert_up, is_message_set
from ottla.storage.producers.state import ProducerBatch, ProducerState
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.records import BatchHeader


class Checked(NamedTuple):
    """Batches that may be appended, in bytes that can be written to."""

    data: memoryview
    batches: list[Batch]


class LeaderAppend(NamedTuple):
    """`data` is ready to be written; for a `duplicate`, or without batches, nothing is written."""

    data: memoryview
    batches: list[Batch]
    append_time_ms: int
    duplicate: ProducerBatch | None


def check_in_steps(
    tp: TopicPartition, settings: LogConfig, data: memoryview, origin: Origin, now_ms: int
) -> Steps[Checked]:
    """Everything about what was sent that does not depend on the log; raises KafkaError. Times and
    codecs may change in `data` itself; it is copied only if it cannot be written to."""
    if is_message_set(data):
        converted = yield from convert_up(tp, data, settings, now_ms)
        return Checked(data[:0], []) if converted is None else Checked(converted.view, [converted])
    if data.readonly:
        data = memoryview(bytearray(data))
    batches = checks.split(data)
    for batch in batches:
        checks.check(tp, batch, settings, origin)
    if len(batches) > 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"More than one record batch in the append to {tp}"
        )
    if (
        not batches
        or origin is Origin.COORDINATOR
        or not needs_records(batches[0].header, settings)
    ):
        return Checked(data, batches)
    batch = yield from examined(tp, batches[0], settings, now_ms)
    return Checked(batch.view, [batch])


def prepare_leader_append(
    tp: TopicPartition,
    settings: LogConfig,
    producers: ProducerState,
    checked: Checked,
    *,
    end_offset: int,
    leader_epoch: int,
    origin: Origin,
    now_ms: int,
) -> LeaderAppend:
    """For a log that ends at `end_offset`. Offsets and epoch go into the data itself."""
    data, batches = checked
    if not batches:
        # As in Kafka, where only newer versions of Produce ask for a batch.
        return LeaderAppend(data, [], -1, None)
    size = sum(len(batch.view) for batch in batches)
    if size > settings.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {tp}, which exceeds "
            f"the maximum configured segment size of {settings.segment_bytes}.",
        )
    duplicate = _check_producers(producers, batches, origin)
    if duplicate is not None:
        return LeaderAppend(data, [], -1, duplicate)
    append_time_ms = now_ms if settings.message_timestamp_type == "LogAppendTime" else -1
    offset = end_offset
    ready: list[Batch] = []
    for view, header in batches:
        if append_time_ms >= 0:
            records.patch_append_time(view, append_time_ms)
            header = records.read_header(view)
        records.patch(view, offset, leader_epoch)
        patched = BatchHeader._make((offset, header[1], leader_epoch, *header[3:]))
        ready.append(Batch(view, patched))
        offset += header.last_offset_delta + 1
    return LeaderAppend(data[:size], ready, append_time_ms, None)


def _check_producers(
    producers: ProducerState, batches: list[Batch], origin: Origin
) -> ProducerBatch | None:
    for view, header in batches:
        if header.producer_id < 0:
            continue
        if origin is Origin.COORDINATOR:
            _check_coordinator_batch(producers, view, header)
            continue
        duplicate = producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            transactional=header.is_transactional,
        )
        if duplicate is not None:
            return duplicate
    return None


def _check_coordinator_batch(
    producers: ProducerState, view: memoryview, header: BatchHeader
) -> None:
    """A marker, or the offset commits of a transaction."""
    if not header.is_control:
        producers.check_epoch(header.producer_id, header.producer_epoch)
        return
    marker = records.parse_marker(view)
    producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
