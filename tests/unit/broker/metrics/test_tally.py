"""Counting partitions, and how often that is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.bounds.turns import Turns
from ottla.broker.metrics.tally import PartitionTally, Tally
from tests.support.storage.log_helpers import ManualClock


def partition(*, leads: bool, isr: int = 2) -> Any:
    members = frozenset(range(isr))
    return SimpleNamespace(
        is_leader=leads,
        in_sync=SimpleNamespace(members=members),
        replicas=[0, 1],
        adding_replicas=[],
    )


async def test_leaders_and_those_that_lack_a_replica() -> None:
    hosted: Any = [partition(leads=True), partition(leads=True, isr=1), partition(leads=False)]
    tally = await PartitionTally(ManualClock()).get(hosted, Turns())
    assert tally == Tally(partitions=3, leaders=2, under_replicated=1)


async def test_few_partitions_are_counted_every_time_and_many_now_and_then() -> None:
    clock = ManualClock()
    counts = PartitionTally(clock)
    few: Any = [partition(leads=True)]
    many: Any = few * 3_000
    assert (await counts.get(few, Turns())).leaders == 1
    few += few
    assert (await counts.get(few, Turns())).leaders == 2
    clock.ms += 10_000
    assert (await counts.get(many, Turns())).leaders == 3_000
    assert (await counts.get(many[:2_500], Turns())).leaders == 3_000
    clock.ms += 10_000
    assert (await counts.get(many[:2_500], Turns())).leaders == 2_500
