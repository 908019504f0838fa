"""Lifecycle events in words."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli import main as cli_main
from ottla.cli.events import is_about, line, parse_event


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"event": "Startup", "kind": "event", "ts_ms": 0, "controller_epoch": 1},
         "1970-01-01 00:00:00.000Z epoch=1 Startup"),
        ({"event": "BrokerChange", "kind": "replica", "ts_ms": 1500, "controller_epoch": 2,
          "topic": "t", "partition": 3, "broker": 1, "from": "NewReplica", "to": "OnlineReplica",
          "leader": -1, "isr": [1, 2], "replicas": [1, 2, 3], "leader_epoch": 4},
         "1970-01-01 00:00:01.500Z epoch=2 BrokerChange replica t-3 broker=1 "
         "NewReplica -> OnlineReplica leader=none isr=1,2 replicas=1,2,3 leader_epoch=4"),
        ({"event": "TopicDeletion", "kind": "request", "ts_ms": 1, "controller_epoch": 2,
          "topic": "t", "broker": 1, "to": "StopReplica", "cause": "stop partitions 0,1"},
         "1970-01-01 00:00:00.001Z epoch=2 TopicDeletion request t broker=1 StopReplica "
         "(stop partitions 0,1)"),
        ({"event": "StopReplicaResponseReceived", "kind": "answer", "ts_ms": 1, "topic": "t",
          "controller_epoch": 2, "broker": 1, "to": "StopReplica", "error": "NONE"},
         "1970-01-01 00:00:00.001Z epoch=2 StopReplicaResponseReceived answer t broker=1 "
         "StopReplica error=NONE"),
        ({"event": "X", "kind": "partition", "ts_ms": 1, "controller_epoch": 2, "topic": "t",
          "isr": "all", "leader": None},
         "1970-01-01 00:00:00.001Z epoch=2 X partition t leader=None isr=all"),
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


def test_events_of_a_topic() -> None:
    assert is_about({"event": "X", "kind": "partition", "topic": "t"}, "t")
    assert not is_about({"event": "X", "kind": "partition", "topic": "u"}, "t")
    assert is_about({"event": "X", "kind": "request", "topic": "t"}, "t")
    assert not is_about({"event": "X", "kind": "request", "topic": "u"}, "t")
    assert is_about({"event": "X", "kind": "answer", "topic": "*"}, "t")
    assert not is_about({"event": "X", "kind": "request"}, "t")


def test_only_objects_with_an_event_are_events() -> None:
    assert parse_event(b'{"event":"X"}') == {"event": "X"}
    for other in (None, b"", b"{", b"[]", b"3", b"{}", b"\xff", b"[" * 100_000):
        assert parse_event(other) is None


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["events", "--new"]) == 1
    assert capsys.readouterr().err == "--new goes with --follow\n"
