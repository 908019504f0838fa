"""Offsets that go while commits of them are gathered or wait for followers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest

from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset, offset_entries
from ottla.coordinator.shards import ProducerStamp
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.coordinator.coordinator_fakes import Rig, turns

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)
PRODUCER = ProducerStamp(7, 0)

Removal = Callable[[Rig], Coroutine[None, None, None]]


async def commit(rig: Rig, offset: int, tp: TopicPartition = CLICKS) -> ErrorCode:
    one = CommittedOffset(offset, 0, "", rig.clock.now_ms())
    return (await rig.coordinator.offsets.commit("g", Committer(), {tp: one}))[tp]


async def commit_in_transaction(rig: Rig, offset: int) -> ErrorCode:
    one = {CLICKS: CommittedOffset(offset, 0, "", rig.clock.now_ms())}
    found = await rig.coordinator.in_transactions.commit("g", Committer(), PRODUCER, one)
    return found[CLICKS]


def end_transaction(rig: Rig, *, committed: bool = True) -> None:
    marker = records.build_marker(
        producer_id=7, producer_epoch=0, commit=committed, coordinator_epoch=0, timestamp_ms=1
    )
    rig.log.append(memoryview(marker))
    rig.coordinator.in_transactions.end(0, 7, committed=committed)


def stored(rig: Rig) -> dict[TopicPartition, int]:
    _, found = rig.coordinator.offsets.fetch("g", None)
    return {tp: each.commit.offset for tp, each in found.items() if each.commit is not None}


async def delete_topic(rig: Rig) -> None:
    rig.metadata.delete("clicks")


async def delete_group(rig: Rig) -> None:
    assert await rig.coordinator.delete_groups(["g"]) == {"g": ErrorCode.NONE}


async def delete_offset(rig: Rig) -> None:
    deleted = await rig.coordinator.offsets.delete("g", [CLICKS])
    assert deleted == (ErrorCode.NONE, {CLICKS: ErrorCode.NONE})


@pytest.mark.parametrize("removal", [delete_topic, delete_group, delete_offset])
@pytest.mark.parametrize("moment", ["gathered", "waits for followers"])
@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("later", [True, False])
async def test_a_commit_under_way_goes_too(
    rig: Rig, removal: Removal, moment: str, *, earlier: bool, later: bool
) -> None:
    rig.metadata.topics["clicks"] = {0: object()}
    await commit(rig, 7, VIEWS)
    if earlier:
        await commit(rig, 1000)
    if moment == "waits for followers":
        rig.replicas.replicated.clear()
    under_way = asyncio.create_task(commit(rig, 1001))
    removing = asyncio.create_task(removal(rig))
    if moment == "waits for followers":
        await turns()
    else:
        await asyncio.sleep(0)
    expected = {} if removal is delete_group else {VIEWS: 7}
    assert stored(rig) == expected
    # The next topic of that name, the next group, or the next life of the offset.
    rig.metadata.topics["clicks"] = {0: object()}
    if later:
        next_one = asyncio.create_task(commit(rig, 5))
        expected[CLICKS] = 5
        await turns()
    rig.replicas.replicated.set()
    await removing
    assert await under_way is ErrorCode.NONE
    assert not later or await next_one is ErrorCode.NONE
    await turns()
    assert stored(rig) == expected
    await rig.fail_over()
    assert stored(rig) == expected


@pytest.mark.parametrize("moment", ["waits for followers", "waits for its marker"])
async def test_a_transactional_commit_under_way_goes_with_its_topic(rig: Rig, moment: str) -> None:
    rig.metadata.topics["clicks"] = {0: object()}
    rig.replicas.replicated.clear()
    under_way = asyncio.create_task(commit_in_transaction(rig, 1001))
    await turns()
    if moment == "waits for its marker":
        rig.replicas.replicated.set()
        await under_way
    rig.metadata.delete("clicks")
    rig.replicas.replicated.set()
    assert await under_way is ErrorCode.NONE
    end_transaction(rig)
    await turns()
    assert stored(rig) == {}
    await rig.fail_over()
    assert stored(rig) == {}


async def test_whoever_commits_again_when_answered_does_not_get_between_tombstones(
    rig: Rig,
) -> None:
    """As a connection does that has the next request already."""
    partitions = [TopicPartition("clicks", n) for n in range(1200)]
    offsets = rig.coordinator.offsets
    answers: list[ErrorCode] = []

    def begin(number: int, again: int) -> None:
        commits = {tp: CommittedOffset(number, 0, "", 1) for tp in partitions}

        def ended(error: ErrorCode) -> None:
            answers.append(error)
            if again:
                begin(number + 1, again - 1)

        entries = offset_entries("g", commits)
        assert offsets.begin_commit("g", Committer(), commits, entries, ended) is ErrorCode.NONE

    begin(1, again=1)
    await delete_group(rig)
    await turns()
    assert answers == [ErrorCode.NONE] * 2
    assert set(stored(rig).values()) == {2}
    known = stored(rig)
    await rig.fail_over()
    assert stored(rig) == known


async def test_a_commit_that_follows_its_replacement_is_kept(rig: Rig) -> None:
    """The name is taken by a new topic while offsets are carried to another one."""
    await commit(rig, 1000)
    rig.replicas.replicated.clear()
    carrying = asyncio.create_task(rig.coordinator.carrier.carry("clicks", "views"))
    await turns()
    after = asyncio.create_task(commit(rig, 5))
    await turns()
    rig.replicas.replicated.set()
    await asyncio.gather(carrying, after)
    assert stored(rig) == {TopicPartition("views", 0): 1000, CLICKS: 5}
    await rig.fail_over()
    assert stored(rig) == {TopicPartition("views", 0): 1000, CLICKS: 5}


async def one_step(rig: Rig, draw: random.Random, number: int) -> None:
    """Something that somebody may do, without a wait for its end."""
    registry, offsets = rig.coordinator.registry, rig.coordinator.offsets
    chance = draw.random()
    if chance < 0.4:
        registry.spawn(commit(rig, number, draw.choice([CLICKS, VIEWS])))
    elif chance < 0.5:
        registry.spawn(commit_in_transaction(rig, number))
    elif chance < 0.55:
        registry.spawn(offsets.delete("g", [draw.choice([CLICKS, VIEWS])]))
    elif chance < 0.6:
        registry.spawn(rig.coordinator.delete_groups(["g"]))
    elif chance < 0.7:
        rig.metadata.topics["clicks"] = {0: object()}
        rig.metadata.delete("clicks")
    elif chance < 0.75:
        rig.clock.elapsed_ms += 10 * 24 * 3_600_000
        registry.spawn(offsets.expire())
    elif chance < 0.8:
        registry.spawn(rig.coordinator.carrier.carry(*draw.sample(["clicks", "views"], 2)))
    elif chance < 0.9:
        rig.replicas.replicated.clear()
    else:
        rig.replicas.replicated.set()
    await turns(draw.choice([0, 0, 1, 2, 20]))


@pytest.mark.parametrize("seed", range(40))
async def test_whoever_loads_the_log_knows_the_same(rig: Rig, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(60):
        await one_step(rig, draw, number)
    rig.replicas.replicated.set()
    await turns(60)
    # A marker comes after the answers to what was committed before it.
    end_transaction(rig, committed=draw.random() < 0.5)
    known = stored(rig)
    await rig.fail_over()
    assert stored(rig) == known
