"""Checkpoints count as written only where they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.storage.manager.data_dir import DataDir
from ottla.storage.manager.shared_ids import FILE_NAME, decode
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch
from tests.support.storage.log_managers import TOPIC_ID, manager

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OTHER_ID = bytes(range(16, 32))


class FullDisk(SystemDisk):
    """Has no room for files of some names."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        self.refused.add(name)
        yield
        self.refused.discard(name)

    def write_atomically(self, path: Path, data: bytes) -> None:
        if path.name in self.refused:
            raise OSError(28, "No space left on device")
        super().write_atomically(path, data)


async def test_without_its_checkpoints_a_stop_is_not_clean(tmp_path: Path) -> None:
    disk = FullDisk()
    logs = manager(tmp_path, disk=disk)
    await logs.start()
    logs.get_or_create(A).append_as_leader(batch(3), 1)
    with disk.refusing(checkpoints.RECOVERY_POINTS):
        await logs.shutdown()
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()


async def test_a_watermark_that_moves_during_the_write_is_written_next_time(
    tmp_path: Path,
) -> None:
    logs = manager(tmp_path)
    await logs.start()
    log = logs.get_or_create(A)
    log.append_as_leader(batch(5), 1)
    log.set_high_watermark(2)
    writing = asyncio.ensure_future(logs.checkpoints.write_high_watermarks())
    await asyncio.sleep(0)
    log.set_high_watermark(5)
    await writing
    assert log.checkpointed_high_watermark == 2
    await logs.checkpoints.write_high_watermarks()
    written = (tmp_path / checkpoints.HIGH_WATERMARKS).read_bytes()
    assert checkpoints.decode_offsets(written) == {A: 5}
    await logs.shutdown()


async def test_a_name_that_goes_twice_during_a_checkpoint_is_still_gone(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    await logs.start()
    logs.get_or_create(A)
    logs.get_or_create(B)
    logs.delete(A)
    written = logs.checkpoints._write

    async def meanwhile(
        data_dir: DataDir, name: str, offsets: Mapping[TopicPartition, int]
    ) -> bool:
        is_written = await written(data_dir, name, offsets)
        if name == checkpoints.RECOVERY_POINTS:
            second = logs.get_or_create(A, topic_id=TOPIC_ID)
            second.append_as_leader(batch(9), 1)
            second.set_high_watermark(9)
            logs.delete(B)
        if name == checkpoints.HIGH_WATERMARKS:
            logs.delete(A)
        return is_written

    logs.checkpoints._write = meanwhile  # type: ignore[method-assign]
    await logs.checkpoints.write_offsets()
    logs.checkpoints._write = written  # type: ignore[method-assign]
    logs.get_or_create(A, topic_id=OTHER_ID)
    watermarks = (tmp_path / checkpoints.HIGH_WATERMARKS).read_bytes()
    assert not checkpoints.decode_offsets(watermarks).get(A), "that of the log before it"
    assert decode((tmp_path / FILE_NAME).read_bytes()) == ({str(A): OTHER_ID}, 0)
    await logs.checkpoints.write_offsets()
    assert not logs.dirs[tmp_path].gone, "and what is written counts as written"
    await logs.shutdown()


async def test_a_late_write_does_not_bring_back_where_a_log_was_cleaned_that_is_gone(
    tmp_path: Path,
) -> None:
    logs = manager(tmp_path)
    await logs.start()
    logs.get_or_create(A).cleaned_offset = 5
    data_dir = logs.dirs[tmp_path]
    written, is_held, may_go = data_dir.write, threading.Event(), threading.Event()

    def slow(name: str, offsets: Mapping[TopicPartition, int], order: int) -> None:
        if name == checkpoints.CLEANED and not is_held.is_set():
            is_held.set()
            may_go.wait(10)
        written(name, offsets, order)

    data_dir.write = slow  # type: ignore[method-assign]
    late = asyncio.ensure_future(logs.checkpoints.write_cleaned())
    await asyncio.to_thread(is_held.wait, 10)
    logs.delete(A)
    await logs.checkpoints.write_offsets()
    may_go.set()
    await late
    assert not data_dir.gone
    cleaned = (tmp_path / checkpoints.CLEANED).read_bytes()
    assert checkpoints.decode_offsets(cleaned) == {}
    await logs.shutdown()
