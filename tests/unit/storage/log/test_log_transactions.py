"""Transactions in one log: last stable offset, aborted list, markers, recovery, truncation."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.storage.log.log import Log
from ottla.storage.segment import transaction_index
from ottla.storage.segment.index import IndexDamaged
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, batch, new_log, reopen, settings


class Writer:
    """One transactional producer on one log."""

    def __init__(self, log: Log, producer_id: int, epoch: int = 0) -> None:
        self.log = log
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    def write(self, count: int = 1, *, transactional: bool = True, value: bytes = b"v") -> int:
        items = [records.Record(b"k", value, START_MS) for _ in range(count)]
        data = records.build_batch(
            items,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )
        info = self.log.append_as_leader(memoryview(bytearray(data)), 0)
        self.sequence += count
        return info.first_offset

    def end(self, *, commit: bool, coordinator_epoch: int = 0) -> int:
        data = records.build_marker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=START_MS,
        )
        appended = self.log.append_as_leader(memoryview(bytearray(data)), 0, Origin.COORDINATOR)
        return appended.first_offset


def replicate(log: Log) -> None:
    log.set_high_watermark(log.end_offset)


def code_of(raised: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return raised.value.code


def test_entries_have_kafkas_34_bytes() -> None:
    entry = AbortedTransaction(7, 10, 20, 21)
    data = transaction_index.encode([entry])
    assert data.hex() == ("00000000000000000007000000000000000a00000000000000140000000000000015")
    assert transaction_index.decode(data) == [entry]
    assert transaction_index.decode(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 33,
        b"\xff\xff" + bytes(32),
        transaction_index.encode([AbortedTransaction(1, 0, 5, 6), AbortedTransaction(2, 1, 5, 6)]),
    ],
)
def test_damaged_files_are_refused(data: bytes) -> None:
    with pytest.raises(IndexDamaged):
        transaction_index.decode(data)


def test_the_oldest_open_transaction_holds_back_the_stable_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(batch(3), 0)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write(2)
    second.write(2)
    replicate(log)
    assert (log.high_watermark, log.last_stable_offset) == (7, 3)
    first.end(commit=True)
    replicate(log)
    assert log.last_stable_offset == 5
    second.end(commit=False)
    assert log.last_stable_offset == 5, "the marker is not replicated yet"
    replicate(log)
    assert log.last_stable_offset == log.high_watermark == 9


@pytest.mark.parametrize("commit", [True, False])
def test_the_stable_offset_at_a_marker_and_beside_it(tmp_path: Path, *, commit: bool) -> None:
    """The high watermark is the first offset that is not replicated: at the marker it is not yet
    enough (ProducerStateManager.removeUnreplicatedTransactions)."""
    log = new_log(tmp_path)
    log.append_as_leader(batch(2), 0)  # 0, 1
    writer = Writer(log, 1)
    assert writer.write(2) == 2  # 2, 3
    assert writer.end(commit=commit) == 4
    log.append_as_leader(batch(1), 0)  # 5
    stable = {}
    for high_watermark in range(1, 7):
        log.set_high_watermark(high_watermark)
        stable[high_watermark] = log.last_stable_offset
    assert stable == {1: 1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 6}


def test_the_stable_offset_between_two_markers(tmp_path: Path) -> None:
    """Ended in the other order than begun: the older one's marker is the later one."""
    log = new_log(tmp_path)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write()  # 0
    second.write()  # 1
    second.end(commit=True)  # 2
    first.end(commit=True)  # 3
    second.write()  # 4, open
    stable = []
    for high_watermark in range(1, 6):
        log.set_high_watermark(high_watermark)
        stable.append(log.last_stable_offset)
    assert stable == [0, 0, 0, 4, 4]


def test_readers_are_told_what_was_aborted(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write(2)  # 0, 1
    second.write(1)  # 2
    first.end(commit=False)  # 3
    second.end(commit=True)  # 4
    second.write(1)  # 5
    second.end(commit=False)  # 6
    replicate(log)
    aborted = [AbortedTransaction(1, 0, 3, 2), AbortedTransaction(2, 5, 6, 7)]
    assert log.active.transactions.aborted() == aborted
    size = len(log.read(0, 1 << 20, log.end_offset, min_one_batch=True))
    assert log.aborted_in(0, size) == aborted
    assert log.aborted_in(4, 10) == aborted[1:]
    assert log.active.path(".txnindex").read_bytes() == transaction_index.encode(aborted)


def test_a_read_of_few_bytes_names_few_transactions(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(index_interval_bytes=100))
    writer = Writer(log, 1)
    for _ in range(50):
        writer.write(1, value=b"v" * 200)
        writer.end(commit=False)
    replicate(log)
    found = log.aborted_in(0, 300)
    assert 1 <= len(found) < 5
    assert found[0].first_offset == 0


def test_aborted_transactions_across_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, settings(segment_bytes=400))
    writer = Writer(log, 1)
    writer.write(1, value=b"v" * 200)
    log.append_as_leader(batch(1, value=b"x" * 200), 0)
    marker = writer.end(commit=False)
    replicate(log)
    assert len(log.segments) > 1
    assert not log.segments[0].transactions.aborted()
    assert [entry.last_offset for entry in log.aborted_in(0, 100)] == [marker]


def test_a_marker_without_records_leaves_no_entry(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    Writer(log, 1).end(commit=False)
    replicate(log)
    assert log.last_stable_offset == 1
    assert not log.active.path(".txnindex").exists()


def test_markers_of_an_older_coordinator_are_fenced(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    writer = Writer(log, 1)
    writer.write()
    writer.end(commit=True, coordinator_epoch=5)
    with pytest.raises(KafkaError) as raised:
        writer.end(commit=False, coordinator_epoch=4)
    assert code_of(raised) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    writer.end(commit=True, coordinator_epoch=5)


def test_a_marker_with_a_newer_epoch_fences_the_producer(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    zombie = Writer(log, 1)
    zombie.write()
    Writer(log, 1, epoch=1).end(commit=False)
    with pytest.raises(KafkaError) as raised:
        zombie.write()
    assert code_of(raised) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as raised:
        zombie.end(commit=True)
    assert code_of(raised) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_records_outside_of_an_open_transaction_are_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    writer = Writer(log, 1)
    writer.write()
    with pytest.raises(KafkaError) as raised:
        writer.write(transactional=False)
    assert code_of(raised) is ErrorCode.INVALID_TXN_STATE
    writer.end(commit=True)
    writer.write(transactional=False)


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(tmp_path: Path, *, clean: bool) -> None:
    log = new_log(tmp_path, settings(segment_bytes=600))
    aborted, open_one = Writer(log, 1), Writer(log, 2)
    for _ in range(5):
        aborted.write(1, value=b"v" * 100)
        aborted.end(commit=False)
    opened_at = open_one.write()
    for _ in range(4):
        aborted.write(1, value=b"v" * 100)
        aborted.end(commit=False)
    replicate(log)
    log.write_snapshot()
    log.active.indexes().write()
    expected = [segment.transactions.aborted() for segment in log.segments]
    if not clean:
        for segment in log.segments:
            segment.path(".txnindex").unlink(missing_ok=True)
    again = reopen(log, clean=clean)
    assert [segment.transactions.aborted() for segment in again.segments] == expected
    assert again.last_stable_offset == opened_at
    Writer(again, 2).end(commit=True)
    replicate(again)
    assert again.last_stable_offset == again.end_offset


def test_a_damaged_index_is_made_again_from_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    writer = Writer(log, 1)
    writer.write()
    writer.end(commit=False)
    expected = log.active.transactions.aborted()
    log.write_snapshot()
    log.active.indexes().write()
    log.active.path(".txnindex").write_bytes(b"garbage")
    again = reopen(log, clean=True)
    assert again.active.transactions.aborted() == expected != []


def test_truncation_opens_transactions_again(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    first, second = Writer(log, 1), Writer(log, 2)
    first.write(2)  # 0, 1
    first.end(commit=False)  # 2
    second.write(1)  # 3
    marker = second.end(commit=False)  # 4
    log.set_high_watermark(3)
    log.truncate_to(marker)
    assert log.active.transactions.aborted() == [AbortedTransaction(1, 0, 2, 3)]
    assert log.active.path(".txnindex").stat().st_size == 34
    replicate(log)
    assert log.last_stable_offset == 3
    log.truncate_to(1)
    assert log.active.transactions.aborted() == []
    assert log.last_stable_offset == log.end_offset == 0


def test_a_follower_learns_the_same(tmp_path: Path) -> None:
    leader, follower = new_log(tmp_path / "leader"), new_log(tmp_path / "follower")
    writer = Writer(leader, 1)
    writer.write(3)
    writer.end(commit=False)
    writer.write(1)
    follower.append_as_follower(leader.read(0, 1 << 20, leader.end_offset, min_one_batch=True))
    follower.set_high_watermark(leader.end_offset)
    assert follower.last_stable_offset == 4
    assert follower.active.transactions.aborted() == leader.active.transactions.aborted() != []


def test_dropped_records_do_not_hold_back_readers(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    Writer(log, 1).write(2)
    log.append_as_leader(batch(3), 0)
    replicate(log)
    assert log.last_stable_offset == 0
    log.advance_start_offset(4)
    assert log.last_stable_offset == 4
