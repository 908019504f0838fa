"""What comes round by time: retention by time, by size and by the log's start."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.storage import checkpoints
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import START_MS, ManualClock, all_offsets, batch
from tests.support.storage.log_managers import manager

A = TopicPartition("a", 0)


async def test_retention_of_many_logs_lets_others_have_their_turn(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock, retention_ms=10_000)
    await logs.start()
    many = [logs.get_or_create(TopicPartition("many", number)) for number in range(5)]
    for log in many:
        log.append_as_leader(batch(1, timestamp=START_MS), 0)
        log.set_high_watermark(1)
    clock.ms = START_MS + 30_000
    work = asyncio.create_task(logs.housekeeping._delete_in_turns())
    await asyncio.sleep(0)
    assert [log.start_offset for log in many] == [1, 0, 0, 0, 0]
    logs.delete(many[1].tp)
    await work
    assert [log.start_offset for log in many] == [1, 0, 1, 1, 1], "a log that is gone stays alone"
    await logs.shutdown()


async def test_retention_by_time_rolls_and_drops_even_the_active_segment(tmp_path: Path) -> None:
    clock = ManualClock()
    logs = manager(tmp_path, clock=clock, segment_bytes=400, retention_ms=10_000)
    await logs.start()
    log = logs.get_or_create(A)
    for number in range(6):
        log.append_as_leader(batch(2, timestamp=START_MS + number * 1000), 0)
    last_base = log.active.base_offset
    clock.ms = START_MS + 30_000
    logs.housekeeping.delete_old_segments()
    assert log.start_offset == 0, "nothing goes that consumers cannot have read"
    log.set_high_watermark(log.end_offset)
    logs.housekeeping.delete_old_segments()
    assert (log.start_offset, log.end_offset, len(log.segments)) == (12, 12, 1)
    assert last_base < 12
    assert list((tmp_path / "a-0").glob("*.deleted"))
    clock.ms += 60_000
    await logs.removals.remove_due()
    assert not list((tmp_path / "a-0").glob("*.deleted"))
    assert log.append_as_leader(batch(), 0).first_offset == 12
    await logs.shutdown()


async def test_retention_by_size_keeps_at_least_that_much(tmp_path: Path) -> None:
    logs = manager(tmp_path, segment_bytes=400, retention_bytes=900, retention_ms=-1)
    await logs.start()
    log = logs.get_or_create(A)
    for _ in range(20):
        log.append_as_leader(batch(2), 0)
    log.set_high_watermark(log.end_offset)
    logs.housekeeping.delete_old_segments()
    assert 900 <= log.size < 900 + 400
    assert log.start_offset == log.segments[0].base_offset > 0
    assert all_offsets(log) == list(range(log.start_offset, 40))
    await logs.shutdown()


async def test_segments_before_the_log_start_go_whatever_the_policy(tmp_path: Path) -> None:
    logs = manager(tmp_path, segment_bytes=400, cleanup_policy=frozenset({"compact"}))
    await logs.start()
    log = logs.get_or_create(A)
    for _ in range(10):
        log.append_as_leader(batch(2), 0)
    log.set_high_watermark(20)
    logs.housekeeping.delete_old_segments()
    assert log.segments[0].base_offset == 0
    log.advance_start_offset(9)
    logs.housekeeping.delete_old_segments()
    assert log.segments[0].base_offset <= 9 < log.segments[1].base_offset
    await logs.shutdown()
    assert (tmp_path / checkpoints.LOG_STARTS).read_text() == "0\n1\na 0 9\n"
