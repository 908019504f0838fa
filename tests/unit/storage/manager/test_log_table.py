"""The table of logs: a partition's log, its copy, and which of them are where."""

from __future__ import annotations

from pathlib import Path

from ottla.storage.log.log import Log
from ottla.storage.manager.log_table import LogTable
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import batch, new_log
from tests.support.storage.log_managers import TOPIC_ID

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def log_of(folder: Path, tp: TopicPartition, topic_id: bytes | None = None) -> Log:
    log = new_log(folder, tp=tp)
    if topic_id is not None:
        log.assign_topic_id(topic_id)
    return log


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


def test_logs_of_topics_that_are_gone_or_other_ones_are_stale(tmp_path: Path) -> None:
    table = LogTable()
    log = log_of(tmp_path, A, TOPIC_ID)
    table.enter(log)
    assert table.stale({"a": TOPIC_ID}) == table.stale({"a": None}) == []
    assert table.stale({"a": bytes(15) + b"\1"}) == table.stale({}) == [A]


def test_without_an_id_only_an_empty_log_is_stale(tmp_path: Path) -> None:
    table = LogTable()
    log = log_of(tmp_path, A)
    table.enter(log)
    assert table.stale({"a": TOPIC_ID}) == [] and table.stale({}) == [A]
    log.append_as_leader(batch(), 0)
    assert table.stale({}) == []
