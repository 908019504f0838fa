"""Message sets of old clients in a log: what is stored, and what is refused with which code."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.record_rules import RecordsRejected
from ottla.storage.log.log import Log
from ottla.wire import message_sets, records
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire.compression import compress as compressed
from ottla.wire.records import Record
from tests.support.storage.log_helpers import START_MS, batch, new_log, settings


def items(count: int = 3, *, key: bytes | None = b"k", value: bytes = b"v") -> list[Record]:
    return [Record(key, value, START_MS + n, offset=n) for n in range(count)]


def message_set(magic: int = 1, codec: int = NONE, **kwargs: Any) -> memoryview:
    found = kwargs.pop("found", None) or items(**kwargs)
    return memoryview(message_sets.build_message_set(found, magic=magic, compression=codec))


def message(
    value: bytes | None = b"v", *, magic: int = 1, attributes: int = 0, timestamp: int = START_MS
) -> memoryview:
    """One message by hand."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    body += struct.pack(">i", -1)
    body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return memoryview(struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body)


def stored(log: Log) -> tuple[records.BatchHeader, list[Record]]:
    """The one batch of a log."""
    data = log.read(0, 1 << 20, log.end_offset, min_one_batch=True)
    ((header, view),) = records.iter_batches(data)
    records.verify_crc(view)
    return header, list(records.iter_records(view))


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_one_batch_in_the_codec_it_came_in(tmp_path: Path, magic: int, codec: int) -> None:
    log = new_log(tmp_path)
    info = log.append_as_leader(message_set(magic, codec), 7)
    assert (info.first_offset, info.last_offset, info.append_time_ms) == (0, 2, -1)
    header, found = stored(log)
    assert (header.codec, header.record_count, header.partition_leader_epoch) == (codec, 3, 7)
    assert (header.producer_id, header.base_sequence, header.is_log_append_time) == (-1, -1, False)
    times = [START_MS + n for n in range(3)] if magic else [-1] * 3
    assert found == [Record(b"k", b"v", time, (), n) for n, time in enumerate(times)]
    assert (header.base_timestamp, header.max_timestamp) == (times[0], times[-1])


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize(
    ("wanted", "target"), [("uncompressed", 0), ("zstd", ZSTD), ("gzip", GZIP)]
)
def test_the_topics_codec(tmp_path: Path, codec: int, wanted: str, target: int) -> None:
    log = new_log(tmp_path, settings(compression_type=wanted))
    log.append_as_leader(message_set(1, codec), 0)
    header, found = stored(log)
    assert (header.codec, len(found)) == (target, 3)


@pytest.mark.parametrize("magic", [0, 1])
def test_append_time(tmp_path: Path, magic: int) -> None:
    log = new_log(tmp_path, settings(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(message_set(magic, found=[Record(b"k", b"v", 5, offset=0)]), 0)
    assert info.append_time_ms == START_MS
    header, found = stored(log)
    assert header.is_log_append_time and header.base_timestamp == (5 if magic else -1)
    assert [record.timestamp for record in found] == [START_MS]


def test_offsets_of_the_client_do_not_matter(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    odd = [Record(b"k", b"v", 1, offset=offset) for offset in (5, 5, 2)]
    for codec in (NONE, GZIP):
        log.append_as_leader(message_set(0, codec, found=odd), 0)
    assert log.end_offset == 6


def test_a_cut_end_is_left_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(message_set()[:-1], 0)
    assert log.end_offset == 2
    info = log.append_as_leader(message_set()[:20], 0)
    assert (info.first_offset, log.end_offset) == (-1, 2)


def _wrapper(inner: bytes, codec: int = GZIP, magic: int = 1) -> memoryview:
    return message(compressed(codec, inner), magic=magic, attributes=codec)


def _damaged(data: memoryview) -> memoryview:
    return memoryview(bytes(data[:-1]) + b"\xff")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: _damaged(message_set()), ErrorCode.CORRUPT_MESSAGE),
        (lambda: _wrapper(bytes(_damaged(message_set()))), ErrorCode.CORRUPT_MESSAGE),
        (lambda: memoryview(bytes(message_set()) + bytes(12)), ErrorCode.CORRUPT_MESSAGE),
        (lambda: memoryview(bytes(message(magic=1)) + bytes(batch())[:-1]), None),
        (lambda: memoryview(bytes(message()) + bytes(message(magic=0))), ErrorCode.INVALID_RECORD),
        (lambda: memoryview(bytes(message()) + bytes(batch())), ErrorCode.INVALID_RECORD),
        (lambda: memoryview(bytes(message_set(1, GZIP)) * 2), ErrorCode.INVALID_RECORD),
        (lambda: memoryview(bytes(message()) + bytes(_wrapper(b"x"))), ErrorCode.INVALID_RECORD),
        (lambda: _wrapper(bytes(message_set(1, GZIP))), ErrorCode.INVALID_RECORD),
        (lambda: _wrapper(bytes(message_set(0))), ErrorCode.INVALID_RECORD),
        (lambda: _wrapper(b""), ErrorCode.INVALID_RECORD),
        (lambda: message(None, attributes=GZIP), ErrorCode.INVALID_RECORD),
        (lambda: _wrapper(bytes(message_set()), ZSTD), ErrorCode.INVALID_RECORD),
        (lambda: message(b"no gzip", attributes=GZIP), ErrorCode.UNKNOWN_SERVER_ERROR),
        (lambda: message(attributes=6), ErrorCode.UNKNOWN_SERVER_ERROR),
        (lambda: message(timestamp=-2), ErrorCode.UNKNOWN_SERVER_ERROR),
        (lambda: message(attributes=8), ErrorCode.INVALID_TIMESTAMP),
        (lambda: _wrapper(bytes(17 << 20)), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_refused(
    tmp_path: Path, make: Callable[[], memoryview], code: ErrorCode | None
) -> None:
    log = new_log(tmp_path)
    if code is None:
        assert log.append_as_leader(make(), 0).last_offset == 0
        return
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(make(), 0)
    assert raised.value.code is code
    assert log.end_offset == 0 and log.size == 0


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(cleanup_policy=frozenset({"compact"})))
    log.append_as_leader(message_set(1, GZIP), 0)
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(message_set(1, GZIP, key=None), 0)
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [0, 1, 2]
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(message_set(0, key=None), 0)
    # Each is a batch of its own, and the first one ends it.
    assert [error.batch_index for error in raised.value.record_errors] == [0]
    assert log.end_offset == 3


def test_times_far_away(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(message_timestamp_difference_max_ms=1000))
    for codec in (NONE, GZIP):
        far = [Record(b"k", b"v", START_MS - 2000, offset=0)]
        with pytest.raises(RecordsRejected) as raised:
            log.append_as_leader(message_set(1, codec, found=far), 0)
        assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
        log.append_as_leader(message_set(0, codec, found=far), 0)
    assert log.end_offset == 2


def test_sizes_count_before_and_after_conversion(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(max_message_bytes=1000))

    def code_of(data: memoryview) -> ErrorCode:
        with pytest.raises(KafkaError) as raised:
            log.append_as_leader(data, 0)
        return raised.value.code

    assert code_of(message_set(1, count=1, value=bytes(1000))) is ErrorCode.MESSAGE_TOO_LARGE
    # Each message is small enough, the batch of them is not.
    assert code_of(message_set(1, count=9, value=bytes(200))) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(message_set(0, count=20, value=bytes(41))) is ErrorCode.MESSAGE_TOO_LARGE
    log.append_as_leader(message_set(1, GZIP, count=9, value=bytes(200)), 0)
    assert log.end_offset == 9


def test_one_batch_must_fit_a_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=300))
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(message_set(1, value=bytes(200)), 0)
    assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
