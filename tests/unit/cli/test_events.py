"""Lifecycle events in words."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli import main as cli_main
from ottla.cli.events import line, parse_event


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"event": "Startup", "kind": "event", "ts_ms": 0, "controller_epoch": 1},
         "1970-01-01 00:00:00.000Z epoch=1 Startup"),
        ({"event": "BrokerChange", "kind": "replica", "ts_ms": 1500, "controller_epoch": 2,
          "topic": "t", "partition": 3, "broker": 1, "from": "New", "to": "Online"},
         "1970-01-01 00:00:01.500Z epoch=2 BrokerChange replica t-3 broker=1 New -> Online"),
        ({"event": "TopicDeletion", "kind": "request", "ts_ms": 1, "controller_epoch": 2,
          "broker": 1, "to": "StopReplica", "cause": "2 partitions"},
         "1970-01-01 00:00:00.001Z epoch=2 TopicDeletion request broker=1 StopReplica "
         "(2 partitions)"),
        ({"event": "TopicChange", "kind": "illegal", "ts_ms": 1, "controller_epoch": 2,
          "topic": "t", "partition": 0, "from": "OnlinePartition", "to": "NewPartition",
          "cause": "not a valid transition, the state is kept"},
         "1970-01-01 00:00:00.001Z epoch=2 TopicChange illegal t-0 OnlinePartition -> NewPartition "
         "(not a valid transition, the state is kept)"),
        ({"event": "X\n\x1b[2J", "ts_ms": "soon"}, "? epoch=? X??[2J ?"),
        ({"event": "X", "kind": "topic", "ts_ms": 1e300, "controller_epoch": 1, "topic": "t"},
         "? epoch=1 X topic t"),
    ],
)  # fmt: skip
def test_lines(event: dict[str, Any], text: str) -> None:
    assert line(event) == text


def test_only_objects_with_an_event_are_events() -> None:
    assert parse_event(b'{"event":"X"}') == {"event": "X"}
    for other in (None, b"", b"{", b"[]", b"3", b"{}", b"\xff", b"[" * 100_000):
        assert parse_event(other) is None


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["events", "--new"]) == 1
    assert capsys.readouterr().err == "--new goes with --follow\n"
