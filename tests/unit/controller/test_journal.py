"""The diary: bounded, and in the published form of lifecycle events."""

from __future__ import annotations

from ottla.controller.journal import Journal, LifecycleEvent
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
    }
