"""Checkpoints count as written only where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.runtime import SystemDisk
from ottla.storage import checkpoints
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch
from tests.support.storage.log_managers import manager

A = TopicPartition("a", 0)


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
