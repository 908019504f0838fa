"""One data folder: its checkpoints."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.runtime import Runtime, SystemDisk, SystemNetwork
from ottla.storage import checkpoints
from ottla.storage.manager.data_dir import DataDir
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import ManualClock

A = TopicPartition("a", 0)


async def test_a_checkpoint_that_was_overtaken_is_not_written(tmp_path: Path) -> None:
    folder = DataDir(
        Runtime(ManualClock(), random.Random(1), SystemNetwork(), SystemDisk()), tmp_path
    )
    first, second = folder.order(), folder.order()
    folder.write(checkpoints.LOG_STARTS, {A: 2}, second)
    folder.write(checkpoints.LOG_STARTS, {A: 1}, first)
    text = (tmp_path / checkpoints.LOG_STARTS).read_bytes()
    assert checkpoints.decode_offsets(text) == {A: 2}
