"""Records that do not fit their batch get the codes of Kafka (tests/peers has hundreds of them)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Batch
from ottla.storage.append.inner import examined
from ottla.storage.append.record_rules import MOST_RECORD_ERRORS, RecordsRejected
from ottla.storage.append.steps import Pause, Steps
from ottla.storage.log.log import Log
from ottla.types import TopicPartition
from ottla.wire import native, records
from ottla.wire.compression import GZIP, NONE, ZSTD
from tests.support.native import FORMS, in_force
from tests.support.peers.batch_lies import NOW_MS, batch, record, varint
from tests.support.storage.log_helpers import new_log, settings

_THREE = record(0) + record(1) + record(2)
_SEVEN_LIES = {
    "garbage": batch(b"garbage of no kind " * 9, 3),
    "an empty body": batch(b"", 1),
    "the wrong codec": batch(_THREE, 3, GZIP, is_packed=True),
    "one more": batch(_THREE, 4),
    "one less": batch(_THREE, 2),
    "a million": batch(_THREE, 1_000_000),
    "a negative length": batch(record(0, size=-1) + record(1), 2),
}


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test here runs on native code and on pure Python."""
    with in_force(request.param):
        yield


def _appended(log: Log, data: bytes) -> int:
    return log.append_as_leader(memoryview(bytearray(data)), 0).first_offset


@pytest.mark.parametrize("name", _SEVEN_LIES)
def test_lies_are_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    log = new_log(tmp_path)
    with pytest.raises(KafkaError, match="Append to orders-3: ") as raised:
        _appended(log, _SEVEN_LIES[name])
    unknown = name == "the wrong codec"
    code = ErrorCode.UNKNOWN_SERVER_ERROR if unknown else ErrorCode.INVALID_RECORD
    assert raised.value.code is code
    assert log.end_offset == 0 and log.size == 0


@pytest.mark.parametrize("name", _SEVEN_LIES)
def test_the_short_way_leaves_them_to_the_other(tmp_path: Path, name: str) -> None:
    log = new_log(tmp_path)
    assert log.append_plain([memoryview(bytearray(_SEVEN_LIES[name]))], 0) == []
    assert log.append_plain([memoryview(bytearray(batch(_THREE, 3)))], 0) == [0]


def test_a_broker_may_be_told_to_believe_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(validates_records=False))
    for data in _SEVEN_LIES.values():
        assert _appended(log, data) >= 0
    assert log.append_plain([memoryview(bytearray(_SEVEN_LIES["garbage"]))], 0)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_the_latest_time_is_that_of_the_records(tmp_path: Path, codec: int) -> None:
    """A header in the year 2100 kept a segment for as long."""
    log = new_log(tmp_path)
    body = record(0, time=5) + record(1, time=7) + record(2, time=6)
    lie = batch(body, 3, codec, newest=4_102_444_800_000)
    assert log.append_plain([memoryview(bytearray(lie))], 0) == []
    _appended(log, lie)
    stored = log.read(0, 1 << 20, 3, min_one_batch=True)
    records.verify_crc(stored)
    assert records.read_header(stored).max_timestamp == NOW_MS + 7
    assert log.active.max_timestamp == NOW_MS + 7


def test_offsets_of_a_compressed_batch(tmp_path: Path) -> None:
    jumping = record(0) + record(5)
    log = new_log(tmp_path / "a")
    with pytest.raises(KafkaError) as raised:
        _appended(log, batch(jumping, 2, GZIP))
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    log = new_log(tmp_path / "b", settings(compression_type="zstd"))
    _appended(log, batch(jumping, 2, GZIP))
    stored = log.read(0, 1 << 20, 2, min_one_batch=True)
    assert [found.offset for found in records.iter_records(stored)] == [0, 1]


def test_no_more_records_are_named_than_an_answer_can_hold(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(cleanup_policy=frozenset({"compact"})))
    many = b"".join(record(number, key=None) for number in range(5000))
    with pytest.raises(RecordsRejected) as raised:
        _appended(log, batch(many, 5000))
    assert len(raised.value.record_errors) == MOST_RECORD_ERRORS


def _steps_of(data: bytes) -> Steps[Batch]:
    view = memoryview(bytearray(data))
    found = Batch(view, records.read_header(view))
    return examined(TopicPartition("t", 0), found, settings(), NOW_MS)


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_what_unpacks_to_much_is_not_unpacked_before_a_long_pause(codec: int) -> None:
    steps = _steps_of(batch(bytes(3_000_000), 3, codec))
    assert next(steps) is Pause.LONG
    with pytest.raises(KafkaError):
        next(steps)


def test_a_bomb_is_refused_as_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.append.inner.MOST_PLAIN_BYTES", 2_000_000)
    steps = _steps_of(batch(bytes(3_000_000), 3, ZSTD))
    assert next(steps) is Pause.LONG
    with pytest.raises(KafkaError) as raised:
        next(steps)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_many_records_take_many_steps() -> None:
    count = native.paced(30_000)
    body = (record(0) + record(1, value=b"vv")) * (count // 2)
    pauses = list(_steps_of(batch(body, count)))
    assert len(pauses) >= 10 and set(pauses) == {Pause.SHORT}


def test_half_a_million_headers_take_many_steps() -> None:
    count = native.paced(100_000)
    body = record(0, headers=varint(count) + bytes(2 * count))
    assert len(list(_steps_of(batch(body, 1)))) >= 10
