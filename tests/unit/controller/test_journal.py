"""The diary: bounded, and in the published form of lifecycle events."""

from __future__ import annotations

import logging

import pytest

from ottla.controller.journal import Journal, LifecycleEvent
from ottla.state_changes import LOGGER_NAME, TRACE
from tests.support.controller.controlled_cluster import runtime


def test_the_ring_is_bounded() -> None:
    journal = Journal(runtime().clock, 0, capacity=3)
    for partition in range(5):
        journal.record("partition", topic="t", partition=partition)
    assert [event.partition for event in journal.recent()] == [2, 3, 4]


def test_the_published_form() -> None:
    event = LifecycleEvent(
        ts_ms=5,
        controller_epoch=2,
        event="TopicChange",
        kind="partition",
        topic="t",
        topic_id=bytes(15) + b"\x07",
        partition=0,
        from_state="NewPartition",
        to_state="OnlinePartition",
        leader=1,
        isr=(1, 2),
        replicas=(1, 2, 3),
        leader_epoch=4,
        error="NONE",
    )
    assert event.to_json() == {
        "ts_ms": 5,
        "controller_epoch": 2,
        "event": "TopicChange",
        "kind": "partition",
        "topic": "t",
        "topic_id": "AAAAAAAAAAAAAAAAAAAABw",
        "partition": 0,
        "from": "NewPartition",
        "to": "OnlinePartition",
        "leader": 1,
        "isr": (1, 2),
        "replicas": (1, 2, 3),
        "leader_epoch": 4,
        "error": "NONE",
    }


def test_lines_of_one_level_are_written_together(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE, LOGGER_NAME)
    journal = Journal(runtime().clock, 7)
    journal.epoch = 3
    assert journal.is_tracing
    for number in range(3):
        journal.state_change(TRACE, "step %d", number)
    assert caplog.records == []
    journal.state_change(logging.ERROR, "100% wrong")
    journal.state_change(logging.INFO, "next")
    journal.flush()
    journal.flush()
    start = "[Controller id=7 epoch=3]"
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("TRACE", f"{start} step 0\n{start} step 1\n{start} step 2"),
        ("ERROR", f"{start} 100% wrong"),
        ("INFO", f"{start} next"),
    ]


def test_lines_that_nobody_wants_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER_NAME)
    journal = Journal(runtime().clock, 7)
    journal.state_change(TRACE, "%d", "not a number")
    journal.flush()
    assert not journal.is_tracing and caplog.records == []
