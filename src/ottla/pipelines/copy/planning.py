"""Which offsets a micro-batch has, and which of its ranges share a task. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

_AIM_S = 4.0
FIRST_BATCH = 200_000
_FEWEST, _MOST = 1_000, 2_000_000


def cut(
    positions: Mapping[int, int], ends: Mapping[int, int], most: int
) -> dict[int, tuple[int, int]]:
    """The next ranges by partition, of `most` offsets together or little more, in proportion to
    what waits in each."""
    waiting = {p: ends[p] - at for p, at in positions.items() if ends.get(p, at) > at}
    total = sum(waiting.values())
    share = min(1.0, most / total) if total else 0.0
    return {
        p: (positions[p], positions[p] + max(1, min(count, round(count * share))))
        for p, count in sorted(waiting.items())
    }


def next_size(size: int, records: int, seconds: float) -> int:
    """How many offsets the next micro-batch may have, so that it takes a few seconds."""
    if not records or seconds <= 0:
        return size
    aimed = round(records / seconds * _AIM_S)
    return max(_FEWEST, min(_MOST, aimed, 4 * size))


def share_out(weights: Mapping[T, int], groups: int) -> list[list[T]]:
    """Heavy ones first, each to the group that has least; no group is empty."""
    made: list[tuple[int, list[T]]] = [(0, []) for _ in range(min(groups, len(weights)))]
    for item in sorted(weights, key=lambda one: -weights[one]):
        lightest = min(range(len(made)), key=lambda index: made[index][0])
        weight, items = made[lightest]
        made[lightest] = (weight + weights[item], [*items, item])
    return [items for _, items in made]


def lag(positions: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(end - positions.get(p, 0), 0) for p, end in ends.items())
