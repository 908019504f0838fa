from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.storage.log.log import Log
from ottla.storage.producers.state import (
    MAX_SEQUENCE,
    ProducerBatch,
    ProducerState,
    SnapshotDamaged,
)
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, all_offsets, batch, new_log, reopen


def refused(log: Log, producer: tuple[int, int, int], count: int = 1) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(batch(count, producer=producer), 0)
    return raised.value.code


def test_a_repeated_batch_is_answered_with_its_old_place(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    places = [
        log.append_as_leader(batch(2, producer=(1, 0, number * 2)), 0).first_offset
        for number in range(7)
    ]
    for number in (2, 3, 4, 5, 6):
        again = log.append_as_leader(batch(2, producer=(1, 0, number * 2)), 0)
        assert again.duplicate and again.first_offset == places[number]
        assert again.append_time_ms == START_MS + 1
    # Older than the last five: no longer known as a duplicate.
    assert refused(log, (1, 0, 2), 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 14


def test_gaps_and_partial_repeats_are_out_of_order(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(3, producer=(1, 0, 0)), 0)
    assert refused(log, (1, 0, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, (1, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert all_offsets(log) == [0, 1, 2]


def test_an_unknown_producer_may_start_anywhere(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(producer=(9, 2, 500)), 0)
    log.append_as_leader(batch(producer=(9, 2, 501)), 0)
    assert log.end_offset == 2


def test_after_records_without_an_epoch_a_producer_may_start_anywhere(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(producer=(9, -1, 0)), 0)
    log.append_as_leader(batch(producer=(9, 0, 500)), 0)
    assert refused(log, (9, 0, 500), 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 2


def test_epochs(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(producer=(1, 3, 0)), 0)
    assert refused(log, (1, 2, 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, (1, 4, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(batch(producer=(1, 4, 0)), 0)
    producer = log.producers.get(1)
    assert producer is not None and (producer.epoch, len(producer.batches)) == (4, 1)


def test_sequences_wrap(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(2, producer=(1, 0, MAX_SEQUENCE)), 0)  # the second one has 0
    log.append_as_leader(batch(producer=(1, 0, 1)), 0)
    assert log.end_offset == 3


def test_the_coordinator_is_checked_for_its_epoch_only(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for _ in range(2):
        log.append_as_leader(batch(producer=(1, 5, 0)), 0, Origin.COORDINATOR)
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(batch(producer=(1, 4, 0)), 0, Origin.COORDINATOR)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_after_a_marker_alone_the_first_sequence_is_zero(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    marker = records.build_marker(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=3, timestamp_ms=START_MS
    )
    log.append_as_leader(memoryview(bytearray(marker)), 0, Origin.COORDINATOR)
    producer = log.producers.get(1)
    assert producer is not None and producer.coordinator_epoch == 3
    assert refused(log, (1, 0, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(batch(producer=(1, 0, 0)), 0)


def test_truncation_takes_the_producers_back(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(4):
        log.append_as_leader(batch(producer=(1, 0, number)), 0)
    log.truncate_to(2)
    assert refused(log, (1, 0, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(batch(producer=(1, 0, 2)), 0)
    assert log.end_offset == 3


def state_with_two() -> ProducerState:
    state = ProducerState()
    state.record(1, 0, ProducerBatch(5, 9, 100, 104, START_MS), transactional=False)
    state.record(2, 3, ProducerBatch(0, 0, 105, 105, START_MS + 1), transactional=True)
    return state


def test_a_snapshot_survives_the_round_trip() -> None:
    state = state_with_two()
    data = state.encode_snapshot()
    assert len(data) == 10 + 2 * 46 and data[:2] == b"\x00\x01"
    loaded = ProducerState()
    loaded.load_snapshot(data, 106)
    assert loaded.map_end_offset == 106
    assert loaded.check(1, 0, 5, 9) == ProducerBatch(5, 9, 100, 104, START_MS)
    second = loaded.get(2)
    assert second is not None and second.transaction_first_offset == 105
    assert loaded.encode_snapshot() == data


@pytest.mark.parametrize("damage", [slice(0, 1), slice(3, 4), slice(20, 21)])
def test_a_damaged_snapshot_is_noticed(damage: slice) -> None:
    data = bytearray(state_with_two().encode_snapshot())
    data[damage] = bytes(byte ^ 0xFF for byte in data[damage])
    with pytest.raises(SnapshotDamaged):
        ProducerState().load_snapshot(bytes(data), 1)
    with pytest.raises(SnapshotDamaged):
        ProducerState().load_snapshot(state_with_two().encode_snapshot()[:-1], 1)


def test_idle_producers_are_forgotten_but_not_with_an_open_transaction() -> None:
    state = state_with_two()
    state.expire(START_MS + 999, 1000)
    assert len(state) == 2
    state.expire(START_MS + 5000, 1000)
    assert state.get(1) is None and state.get(2) is not None


def test_a_producer_of_old_records_is_not_idle_while_it_writes(tmp_path: Path) -> None:
    """Backfills send records of years ago; their producer must be recognised all the same."""
    log = new_log(tmp_path)
    old = START_MS - 10_000_000
    log.append_as_leader(batch(1, timestamp=old, producer=(1, 0, 0)), 0)
    log.producers.expire(START_MS, 1000)
    log.append_as_leader(batch(1, timestamp=old, producer=(1, 0, 1)), 0)
    log.producers.expire(START_MS + 2000, 1000)
    assert log.append_as_leader(batch(1, timestamp=old, producer=(1, 0, 1)), 0).duplicate
    log.producers.expire(START_MS + 2999, 1000)
    assert log.producers.get(1) is not None
    log.producers.expire(START_MS + 3000, 1000)
    assert log.producers.get(1) is None


def test_after_a_restart_only_the_records_tell_how_old_a_producer_is(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(1, timestamp=START_MS - 9000, producer=(1, 0, 0)), 0)
    log.append_as_leader(batch(1, timestamp=START_MS, producer=(2, 0, 0)), 0)
    again = reopen(log)
    again.producers.expire(START_MS + 10, 1000)
    assert again.producers.get(1) is None and again.producers.get(2) is not None
