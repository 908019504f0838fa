"""The files of a log as rows with names, in the order and under the names of DumpLogSegments of
Kafka 2.8; for people and for `ottla dump-log`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from ottla.errors import OttlaError
from ottla.runtime import Disk
from ottla.storage.producers.state import ProducerState, SnapshotDamaged
from ottla.storage.segment import batch_scan, transaction_index
from ottla.storage.segment.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from ottla.storage.segment.index import TIME_ENTRY_BYTES, IndexDamaged
from ottla.wire import records
from ottla.wire.compression import CODEC_NAMES
from ottla.wire.primitives import WireError
from ottla.wire.records import BatchHeader

Row = dict[str, object]
# A key and a value to what is shown of them.
Decode = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_MARKERS = {0: "ABORT", 1: "COMMIT"}


class CannotDump(OttlaError):
    """A file that does not belong to a log, or is damaged at a place that the text names."""


def texts(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """UTF-8, with other bytes as `\\xff`."""
    return _text(key), _text(value)


def rows(disk: Disk, path: Path, *, deep: bool, decode: Decode = texts) -> Iterator[Row]:
    """Batches (and their records where `deep`), index entries or producers; `kind` says which.
    Raises CannotDump after the rows before the damage, OSError where the file cannot be read."""
    base, _, suffix = path.name.removesuffix(DELETED_SUFFIX).partition(".")
    reader = _READERS.get(f".{suffix}")
    if reader is None or not base.isdecimal():
        known = ", ".join(_READERS)
        raise CannotDump(f"{path} is not a file of a log: 20 digits and one of {known} are")
    try:
        yield from reader(disk, path, int(base), decode if deep else None)
    except (batch_scan.LogDamaged, WireError, IndexDamaged, SnapshotDamaged) as damage:
        raise CannotDump(f"{path}: {damage}") from None


def _log_rows(disk: Disk, path: Path, _base: int, decode: Decode | None) -> Iterator[Row]:
    size = disk.size(path)
    file = disk.open(path, create=False)
    try:
        for position, header in batch_scan.headers(file, 0, size):
            batch = file.read_at(header.size, position)
            yield _batch_row(position, header, records.crc_is_valid(batch))
            if decode is not None:
                yield from _record_rows(position, header, batch, decode)
    finally:
        file.close()


def _batch_row(position: int, header: BatchHeader, is_valid: bool) -> Row:
    return {
        "kind": "batch",
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "position": position,
        _time_name(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": _codec_name(header.codec),
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _codec_name(codec: int) -> str:
    return CODEC_NAMES[codec].upper() if codec < len(CODEC_NAMES) else str(codec)


def _record_rows(position: int, header: BatchHeader, batch: bytes, decode: Decode) -> Iterator[Row]:
    sequence = header.base_sequence
    for record in records.iter_records(batch):
        delta = record.offset - header.base_offset
        row: Row = {
            "kind": "record",
            "offset": record.offset,
            # Records have had no checksum of their own since magic 2; Kafka says so each time.
            "isValid": True,
            "crc": None,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            _time_name(header): record.timestamp,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "batchSize": header.size,
            "magic": header.magic,
            "compressType": _codec_name(header.codec),
            "position": position,
            "sequence": -1 if sequence < 0 else (sequence + delta) & 0x7FFFFFFF,
            "headerKeys": [name for name, _ in record.headers],
        }
        if header.is_control:
            marker = records.parse_marker(batch)
            row["endTxnMarker"] = _MARKERS.get(marker.type, str(marker.type))
            row["coordinatorEpoch"] = marker.coordinator_epoch
        else:
            row["key"], row["payload"] = decode(record.key, record.value)
        yield row


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _index_rows(disk: Disk, path: Path, base: int, _decode: Decode | None) -> Iterator[Row]:
    data = disk.read_bytes(path)
    _check_length(data, _OFFSET_ENTRY.size)
    for number, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(data)):
        if number and relative == 0:
            return  # the rest of a preallocated file
        yield {"kind": "index", "offset": base + relative, "position": position}


def _time_rows(disk: Disk, path: Path, base: int, _decode: Decode | None) -> Iterator[Row]:
    data = disk.read_bytes(path)
    _check_length(data, TIME_ENTRY_BYTES)
    for number, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(data)):
        if number and timestamp == 0:
            return
        yield {"kind": "timeindex", "timestamp": timestamp, "offset": base + relative}


def _check_length(data: bytes, entry_bytes: int) -> None:
    if len(data) % entry_bytes:
        raise IndexDamaged(f"{len(data)} bytes are not a multiple of {entry_bytes}")


def _aborted_rows(disk: Disk, path: Path, _base: int, _decode: Decode | None) -> Iterator[Row]:
    for entry in transaction_index.decode(disk.read_bytes(path)):
        yield {
            "kind": "txnindex",
            "version": 0,  # there is no other yet
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }


def _producer_rows(disk: Disk, path: Path, base: int, _decode: Decode | None) -> Iterator[Row]:
    state = ProducerState()
    state.load_snapshot(disk.read_bytes(path), base)
    for producer_id, producer in state.items():
        last = producer.batches[-1] if producer.batches else None
        first_offset = producer.transaction_first_offset
        yield {
            "kind": "producer",
            "producerId": producer_id,
            "producerEpoch": producer.epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": None if first_offset < 0 else first_offset,
            "firstSequence": -1 if last is None else last.first_sequence,
            "lastSequence": -1 if last is None else last.last_sequence,
            "lastOffset": -1 if last is None else last.last_offset,
            "offsetDelta": 0 if last is None else last.last_offset - last.base_offset,
            "timestamp": producer.last_timestamp,
        }


_READERS: dict[str, Callable[[Disk, Path, int, Decode | None], Iterator[Row]]] = {
    LOG_SUFFIX: _log_rows,
    INDEX_SUFFIX: _index_rows,
    TIME_INDEX_SUFFIX: _time_rows,
    TXN_INDEX_SUFFIX: _aborted_rows,
    SNAPSHOT_SUFFIX: _producer_rows,
}
