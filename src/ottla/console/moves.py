"""Replicas that are to move: what a plan would copy, and how far running moves are. Nothing here
asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ottla.client.admin.reassignment_plan import Assignment
from ottla.client.admin.types import Reassignment
from ottla.types import TopicPartition

# Sizes of logs: broker and partition.
Sizes = Mapping[tuple[int, TopicPartition], int]


class PlannedMove(msgspec.Struct, frozen=True):
    """`bytes` are copied to each of `adding`; null where nobody knows the size."""

    topic: str
    partition: int
    replicas: list[int]
    target: list[int]
    adding: list[int]
    removing: list[int]
    bytes: int | None


class MovePlan(msgspec.Struct, frozen=True):
    moves: list[PlannedMove]
    bytes: int
    warnings: list[str]


class Copy(msgspec.Struct, frozen=True):
    broker: int
    bytes: int | None


class RunningMove(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    leader: int
    leader_bytes: int | None
    copies: list[Copy]


def plan_moves(
    targets: Assignment,
    present: Assignment,
    leaders: Mapping[TopicPartition, int],
    sizes: Sizes,
    racks: Mapping[int, str | None],
) -> MovePlan:
    """Only what changes; a plan that asks for what is there already has no moves."""
    moves = []
    warnings = []
    for tp, target in sorted(targets.items()):
        now = list(present[tp])
        if now == list(target):
            continue
        adding = [broker for broker in target if broker not in now]
        moves.append(
            PlannedMove(
                tp.topic,
                tp.partition,
                now,
                list(target),
                adding,
                [broker for broker in now if broker not in target],
                sizes.get((leaders.get(tp, -1), tp)) if adding else 0,
            )
        )
        if len(target) != len(now):
            warnings.append(f"{tp} will have {len(target)} replicas instead of {len(now)}.")
        if _racks_used(target, racks) < min(_racks_used(now, racks), len(target)):
            warnings.append(f"{tp} will be in fewer racks than now.")
    total = sum((move.bytes or 0) * len(move.adding) for move in moves)
    return MovePlan(moves, total, warnings[:20])


def _racks_used(replicas: Sequence[int], racks: Mapping[int, str | None]) -> int:
    return len({racks.get(broker) for broker in replicas} - {None})


def running_moves(
    moves: Mapping[TopicPartition, Reassignment],
    leaders: Mapping[TopicPartition, int],
    sizes: Sizes,
) -> list[RunningMove]:
    return [
        RunningMove(
            tp.topic,
            tp.partition,
            list(move.replicas),
            list(move.adding),
            list(move.removing),
            leaders.get(tp, -1),
            sizes.get((leaders.get(tp, -1), tp)),
            [Copy(broker, sizes.get((broker, tp))) for broker in move.adding],
        )
        for tp, move in sorted(moves.items())
    ]
