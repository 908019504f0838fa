"""Folders that fail: who leaves the table, and who is told."""

from __future__ import annotations

from pathlib import Path

from ottla.storage.manager.data_dirs import DataDirs
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import new_log, runtime

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_a_failed_folder_takes_its_logs_with_it_and_is_told_once(tmp_path: Path) -> None:
    x, y = tmp_path / "x", tmp_path / "y"
    table = LogTable()
    dirs = DataDirs(runtime(), [x, y], table)
    stays = new_log(y, tp=B)
    table.enter(new_log(x, tp=A))
    table.enter(stays)
    table.enter_future(new_log(x, tp=B))
    told: list[tuple[Path, list[TopicPartition]]] = []
    dirs.add_failure_listener(lambda path, lost: told.append((path, lost)))
    assert dirs.online() == [x, y] and dirs.offline() == []
    for _ in range(2):
        dirs.failed(x, OSError("broken"))
    assert told == [(x, [A])]
    assert list(table.logs()) == [stays] and not table.futures()
    assert dirs.online() == [y] and dirs.offline() == [x] and dirs[x].offline == "broken"
    assert dirs.usable() == [dirs[y]] and list(dirs) == [dirs[x], dirs[y]]
