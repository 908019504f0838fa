from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.storage.append.record_rules import RecordsRejected
from ottla.wire import records
from ottla.wire.checksum import crc32c
from tests.support.storage.log_helpers import (
    START_MS,
    ManualClock,
    all_offsets,
    batch,
    new_log,
    settings,
)


def with_header(data: memoryview, form: str, position: int, value: int) -> memoryview:
    """Sets a header field and renews the CRC, so that only the field is wrong."""
    struct.pack_into(form, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return data


def code_of(tmp_path: Path, data: memoryview, **config: object) -> ErrorCode:
    log = new_log(tmp_path, settings(**config))
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(data, 0)
    assert log.end_offset == 0 and log.size == 0
    return raised.value.code


def test_a_wrong_crc(tmp_path: Path) -> None:
    data = batch()
    data[-1] ^= 1
    assert code_of(tmp_path, data) is ErrorCode.CORRUPT_MESSAGE


def test_a_base_offset_of_the_clients_own(tmp_path: Path) -> None:
    data = batch()
    struct.pack_into(">q", data, 0, 5)
    assert code_of(tmp_path, data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [0, -1, 2, 0x7FFFFFFF])
def test_a_wrong_record_count(tmp_path: Path, count: int) -> None:
    data = with_header(batch(), ">i", 57, count)
    assert code_of(tmp_path, data) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("delta", [-1, 7])
def test_a_wrong_last_offset_delta(tmp_path: Path, delta: int) -> None:
    data = with_header(batch(), ">i", 23, delta)
    assert code_of(tmp_path, data) is ErrorCode.INVALID_RECORD


def test_control_batches_are_not_for_clients_but_for_the_coordinator(tmp_path: Path) -> None:
    marker = records.build_marker(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=START_MS
    )
    assert code_of(tmp_path / "a", memoryview(bytearray(marker))) is ErrorCode.INVALID_RECORD
    log = new_log(tmp_path / "b")
    log.append_as_leader(memoryview(bytearray(marker)), 0, Origin.COORDINATOR)
    assert log.end_offset == 1


def test_a_producer_without_a_sequence(tmp_path: Path) -> None:
    assert code_of(tmp_path, batch(producer=(5, 0, -1))) is ErrorCode.INVALID_RECORD


def test_too_large_a_batch(tmp_path: Path) -> None:
    data = batch(value=b"x" * 2000)
    assert code_of(tmp_path, data, max_message_bytes=1000) is ErrorCode.MESSAGE_TOO_LARGE


def test_more_than_a_segment_holds(tmp_path: Path) -> None:
    data = batch(value=b"x" * 2000)
    assert code_of(tmp_path, data, segment_bytes=1000) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_unknown_codec(tmp_path: Path) -> None:
    data = with_header(batch(), ">h", 21, 6)
    assert code_of(tmp_path, data) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_old_magic(tmp_path: Path) -> None:
    data = batch()
    data[16] = 1
    assert code_of(tmp_path / "a", data) is ErrorCode.CORRUPT_MESSAGE
    # Behind a batch: its format would have to be that of the first.
    both = memoryview(bytearray(bytes(batch()) + bytes(data)))
    assert code_of(tmp_path / "b", both) is ErrorCode.INVALID_RECORD


def test_an_unknown_magic_and_a_length_below_any_format(tmp_path: Path) -> None:
    data = batch()
    data[16] = 9
    assert code_of(tmp_path / "a", data) is ErrorCode.CORRUPT_MESSAGE
    data = batch()
    struct.pack_into(">i", data, 8, 3)
    assert code_of(tmp_path / "b", data) is ErrorCode.CORRUPT_MESSAGE


def test_more_than_one_batch(tmp_path: Path) -> None:
    both = memoryview(bytearray(bytes(batch()) * 2))
    assert code_of(tmp_path, both) is ErrorCode.INVALID_RECORD


def test_nothing_at_all(tmp_path: Path) -> None:
    """Which versions of Produce may have nothing in them is their handler's business."""
    log = new_log(tmp_path)
    info = log.append_as_leader(memoryview(bytearray()), 0)
    assert (info.first_offset, info.last_offset, info.append_time_ms) == (-1, -1, -1)
    assert log.end_offset == 0 and log.size == 0


def test_a_compacted_topic_names_the_records_without_key(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(cleanup_policy=frozenset({"compact"})))
    log.append_as_leader(batch(2), 0)
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(batch(2, key=None), 0)
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [0, 1]
    assert "orders-3" in str(raised.value.record_errors[0].message)


def test_undecodable_records_where_they_must_be_looked_at(tmp_path: Path) -> None:
    compacted = frozenset({"compact"})
    data = batch(compression=4)
    struct.pack_into(">I", data, 17, 0)
    data[-8:] = b"\0" * 8
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    code = code_of(tmp_path / "a", data, cleanup_policy=compacted)
    assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    data = with_header(batch(), ">b", 61, 120)
    code = code_of(tmp_path / "b", data, cleanup_policy=compacted)
    assert code is ErrorCode.INVALID_RECORD


def test_timestamps_too_far_away(tmp_path: Path) -> None:
    config = settings(message_timestamp_difference_max_ms=1000)
    log = new_log(tmp_path, config)
    log.append_as_leader(batch(timestamp=START_MS + 1000), 0)
    log.append_as_leader(batch(timestamp=-1, step_ms=0), 0)
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(batch(2, timestamp=START_MS - 1001, step_ms=500), 0)
    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in raised.value.record_errors] == [0]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_the_append_time_bit_is_the_brokers(tmp_path: Path, kind: str) -> None:
    log = new_log(tmp_path, settings(message_timestamp_type=kind))
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(with_header(batch(2), ">h", 21, 8), 0)
    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in raised.value.record_errors] == [0, 1]


def test_rejected_records_are_named_in_their_order(tmp_path: Path) -> None:
    compacted = frozenset({"compact"})
    config = settings(cleanup_policy=compacted, message_timestamp_difference_max_ms=1000)
    log = new_log(tmp_path, config)
    times = [(None, START_MS), (b"k", 5), (None, START_MS)]
    items = [records.Record(key, b"v", time_ms) for key, time_ms in times]
    with pytest.raises(RecordsRejected) as raised:
        log.append_as_leader(memoryview(bytearray(records.build_batch(items))), 0)
    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in raised.value.record_errors] == [0, 1, 2]


def test_log_append_time_is_put_into_the_header(tmp_path: Path) -> None:
    clock = ManualClock()
    log = new_log(tmp_path, settings(message_timestamp_type="LogAppendTime"), clock=clock)
    clock.ms += 77
    info = log.append_as_leader(batch(3, timestamp=5), 0)
    assert info.append_time_ms == clock.ms
    stored = log.read(0, 1 << 20, 3, min_one_batch=True)
    records.verify_crc(stored)
    assert {record.timestamp for record in records.iter_records(stored)} == {clock.ms}


@pytest.mark.parametrize(("topic_codec", "codec"), [("zstd", 4), ("gzip", 1), ("uncompressed", 0)])
def test_the_topics_codec_wins(tmp_path: Path, topic_codec: str, codec: int) -> None:
    log = new_log(tmp_path, settings(compression_type=topic_codec))
    log.append_as_leader(batch(10, compression=3, producer=(4, 1, 0)), 6)
    log.append_as_leader(batch(10, compression=codec, producer=(4, 1, 10)), 6)
    stored = log.read(0, 1 << 20, 20, min_one_batch=True)
    headers = [header for header, _ in records.iter_batches(stored)]
    assert [header.codec for header in headers] == [codec, codec]
    assert headers[0].producer_id == 4 and headers[0].base_sequence == 0
    assert headers[0].partition_leader_epoch == 6
    assert all_offsets(log) == list(range(20))


def test_bytes_after_the_last_whole_batch_are_cut_off(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    data = batch()
    log.append_as_leader(memoryview(bytearray(bytes(data) + bytes(data)[:40])), 0)
    assert (log.end_offset, log.size) == (1, len(data))
