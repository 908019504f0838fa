"""Logs in the trash: what the names of their folders tell, into it, out of it, gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.runtime import SystemDisk
from ottla.storage.manager.folder_names import TRASH_FOLDER
from ottla.storage.manager.trash import parse
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch
from tests.support.storage.log_managers import TOPIC_ID, manager

ID = bytes(range(16))


def test_a_name_tells_all() -> None:
    found = parse(Path(f"/d/@metadata-2147483647/a.b-c-12.{ID.hex()}.5.77.-1"))
    assert found is not None
    assert (found.topic, found.partition, found.topic_id) == ("a.b-c", 12, ID)
    assert (found.start_offset, found.high_watermark, found.cleaned_offset) == (5, 77, -1)
    assert found.data_dir == Path("/d")


@pytest.mark.parametrize(
    "name",
    [
        "t-0",
        "lost+found",
        f"t-0.{ID.hex()}.5.77",
        f"t.{ID.hex()}.5.77.0",
        f"t-x.{ID.hex()}.5.77.0",
        f"t-0.{ID.hex()[:-1]}.5.77.0",
        f"t-0.{'z' * 32}.5.77.0",
        f"t-0.{ID.hex()}.-5.77.0",
        f"t-0.{ID.hex()}.5..0",
        f"-0.{ID.hex()}.5.7.0",
    ],
)
def test_what_somebody_else_put_there(name: str) -> None:
    assert parse(Path("/d/@metadata-2147483647") / name) is None


async def test_two_orders_at_once_bring_a_log_back_once(tmp_path: Path) -> None:
    """Of two controllers, or of one whose connection broke. The second finds no folder where the
    first has just taken it, and that is no failure of the disk."""
    logs = manager(tmp_path)
    await logs.start()
    old, new = TopicPartition("old", 0), TopicPartition("new", 0)
    logs.get_or_create(old, topic_id=TOPIC_ID).append_as_leader(batch(), 0)
    kept = await asyncio.gather(*(logs.trash_moves.keep(old, lambda: True) for _ in range(2)))
    assert logs.get(old) is None and True in kept
    await asyncio.gather(*(logs.trash_moves.bring_back({new: TOPIC_ID}) for _ in range(3)))
    assert not logs.dirs.offline()
    log = logs.get(new)
    assert log is not None
    assert (log.end_offset, log.folder) == (1, tmp_path / "new-0")
    assert not logs.trash.topic_ids()
    await logs.shutdown()


async def test_the_way_back_is_on_disk_at_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut brought the log back into the trash, where nobody wanted it any more."""
    logs = manager(tmp_path)
    await logs.start()
    tp = TopicPartition("t", 0)
    logs.get_or_create(tp, topic_id=TOPIC_ID).append_as_leader(batch(), 0)
    await logs.trash_moves.keep(tp, lambda: True)
    synced: list[tuple[Path, bool]] = []
    sync_dir = SystemDisk.sync_dir

    def noting(disk: SystemDisk, path: Path) -> None:
        synced.append((path, (tmp_path / "t-0").exists()))
        sync_dir(disk, path)

    monkeypatch.setattr(SystemDisk, "sync_dir", noting)
    await logs.trash_moves.bring_back({tp: TOPIC_ID})
    assert [path for path, is_back in synced if is_back] == [tmp_path, tmp_path / TRASH_FOLDER]
    await logs.shutdown()
