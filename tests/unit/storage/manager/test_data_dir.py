"""One data folder: the names in it and its checkpoints."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.runtime import Runtime, SystemDisk, SystemNetwork
from ottla.storage import checkpoints
from ottla.storage.manager.data_dir import (
    DataDir,
    deletion_name,
    is_deletion_name,
    is_stray_name,
    parse_folder_name,
    stray_name,
)
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import ManualClock

A = TopicPartition("a", 0)


def test_folder_names() -> None:
    assert parse_folder_name("a-b-3") == TopicPartition("a-b", 3)
    for name in ("a", "-3", "a-", "a-x", "a-٣"):
        assert parse_folder_name(name) is None
    long = deletion_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(long) <= 255 and is_deletion_name(long)
    assert not is_deletion_name("topic-delete-0")
    aside = stray_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(aside) <= 255 and is_stray_name(aside) and not is_deletion_name(aside)
    assert not is_stray_name("topic-stray-0") and not is_stray_name("topic.x-stray")


async def test_a_checkpoint_that_was_overtaken_is_not_written(tmp_path: Path) -> None:
    folder = DataDir(
        Runtime(ManualClock(), random.Random(1), SystemNetwork(), SystemDisk()), tmp_path
    )
    first, second = folder.order(), folder.order()
    folder.write(checkpoints.LOG_STARTS, {A: 2}, second)
    folder.write(checkpoints.LOG_STARTS, {A: 1}, first)
    text = (tmp_path / checkpoints.LOG_STARTS).read_bytes()
    assert checkpoints.decode_offsets(text) == {A: 2}
