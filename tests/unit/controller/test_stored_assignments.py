"""Assignments that do not fit a node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.controller.stored_assignments import write_assignments
from ottla.metadata.store import OpResult
from ottla.metadata.znodes import MAX_ZNODE_BYTES, ReplicaAssignment, TopicZnode
from ottla.types import TopicPartition


def test_a_move_that_would_not_fit_is_not_written_and_others_are() -> None:
    before = {number: ReplicaAssignment((1, 2, 3)) for number in range(50_000)}
    assert len(TopicZnode.encode(before)) < MAX_ZNODE_BYTES
    said: list[str] = []
    ctx: Any = SimpleNamespace(
        topic_assignment=lambda topic: before if topic == "wide" else {0: before[0]},
        topic_ids={},
        journal=SimpleNamespace(error=said.append, info=lambda _: None),
    )
    moved = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    moves = {TopicPartition("wide", number): moved for number in range(50_000)}
    moves[TopicPartition("narrow", 0)] = moved
    steps = write_assignments(ctx, moves)
    step: Any = next(steps)
    assert [op.path for op in step.ops] == ["/brokers/topics/narrow"]
    try:
        steps.send([OpResult()])
    except StopIteration as stop:
        assert {tp.topic for tp in stop.value} == {"wide"}
    else:
        raise AssertionError("there is nothing more to do")
    assert len(said) == 1 and "too large for a node" in said[0]
