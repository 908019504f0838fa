"""Flushes: what they make durable, and what happens to the log meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import File, SystemDisk
from ottla.storage import checkpoints
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch
from tests.support.storage.log_managers import TOPIC_ID, manager

A = TopicPartition("a", 0)


async def test_a_flush_moves_the_recovery_point_unless_the_log_was_cut(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(3), 1)
    assert log.recovery_point == 0 and log.side_files.shared_id
    await logs.flusher.flush(log)
    assert (tmp_path / "a-0" / checkpoints.PARTITION_METADATA).exists()
    assert log.recovery_point == 3 and not log.side_files.unsynced and not log.epochs.dirty
    assert (tmp_path / "a-0" / checkpoints.LEADER_EPOCHS).read_text() == "0\n1\n1 0\n"
    log.append_as_leader(batch(3), 1)
    task = asyncio.ensure_future(logs.flusher.flush(log))
    await asyncio.sleep(0)
    log.truncate_to(3)
    log.append_as_leader(batch(5), 2)
    await task
    assert log.recovery_point == 3
    await logs.shutdown()


async def test_a_segment_sealed_during_the_flush_of_another_is_flushed_too(tmp_path: Path) -> None:
    logs = manager(tmp_path, segment_bytes=400)
    await logs.start()
    log = logs.get_or_create(A)
    log.append_as_leader(batch(3), 1)
    log.roll()
    await asyncio.sleep(0)  # that flush is under way and knows nothing of what follows
    log.append_as_leader(batch(3), 1)
    log.roll()
    log.append_as_leader(batch(3), 1)
    async with asyncio.timeout(60):
        while log.recovery_point < 6:  # noqa: ASYNC110 - the flush has no event of its own
            await asyncio.sleep(0.005)
    assert log.recovery_point == 9, "the second flush took what was there at its beginning"
    await logs.shutdown()


async def test_epochs_that_a_flush_could_not_write_are_written_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(3), 1)

    def vanish(*_: object) -> None:
        raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr(SystemDisk, "write_atomically", vanish)
        await logs.flusher.flush(log)
    assert not (tmp_path / "a-0" / checkpoints.LEADER_EPOCHS).exists()
    await logs.flusher.flush(log)
    assert (tmp_path / "a-0" / checkpoints.LEADER_EPOCHS).read_text() == "0\n1\n1 0\n"
    await logs.shutdown()


async def test_a_full_disk_takes_the_folder_offline_where_a_flush_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one makes a file for the topic's id."""
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A, topic_id=TOPIC_ID)
    log.append_as_leader(batch(3), 1)
    opened = SystemDisk.open

    def full(disk: SystemDisk, path: Path, *, create: bool = True) -> File:
        if path.name == checkpoints.PARTITION_METADATA:
            raise OSError(28, "No space left on device")
        return opened(disk, path, create=create)

    monkeypatch.setattr(SystemDisk, "open", full)
    with pytest.raises(KafkaError) as raised:
        await logs.flusher.flush(log)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.dirs.offline() == [tmp_path]
    await logs.shutdown()
