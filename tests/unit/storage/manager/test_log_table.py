"""The table of logs: a partition's log, its copy, and which of them are where."""

from __future__ import annotations

from pathlib import Path

from ottla.storage.log.log import Log
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import new_log

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def log_of(folder: Path, tp: TopicPartition) -> Log:
    return new_log(folder, tp=tp)


def test_a_copy_stands_beside_the_log(tmp_path: Path) -> None:
    table = LogTable()
    log, copy, other = (
        log_of(tmp_path / "x", A),
        log_of(tmp_path / "y", A),
        log_of(tmp_path / "y", B),
    )
    table.enter(log)
    table.enter(other)
    table.enter_future(copy)
    assert table.get(A) is log and table.future(A) is copy and list(table.futures()) == [A]
    assert table.logs_in(tmp_path / "y") == [other] and table.futures_in(tmp_path / "y") == [copy]
    assert table.of_topic("a") == [log, copy]
    assert list(table.unmoved()) == [other] and table.unmoved_log(A) is None
    assert table.remove_future(A) is copy and table.remove_future(A) is None
    assert table.unmoved_log(A) is log
    assert table.remove(A) is log and table.remove(A) is None
    assert list(table.logs()) == [other]


def test_strays_are_left_out_of_compaction(tmp_path: Path) -> None:
    table = LogTable()
    log, stray = log_of(tmp_path, A), log_of(tmp_path, B)
    stray.is_stray = True
    table.enter(log)
    table.enter(stray)
    assert list(table.unmoved()) == [log] and list(table.logs()) == [log, stray]
