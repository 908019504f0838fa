"""Finding, making and letting go of groups."""

from __future__ import annotations

import asyncio

import pytest

from ottla.coordinator.groups.answers import LeavingMember
from ottla.coordinator.groups.group import GroupState
from ottla.coordinator.shards import Shard
from ottla.errors import ErrorCode
from tests.support.coordinator.coordinator_fakes import Rig, turns


async def test_who_is_found(rig: Rig) -> None:
    registry = rig.coordinator.registry
    assert isinstance(registry.find("g"), Shard)
    assert registry.find("") is ErrorCode.INVALID_GROUP_ID
    assert isinstance(registry.find("", allow_empty=True), Shard)
    rig.resign(1)
    assert registry.find("g") is ErrorCode.NOT_COORDINATOR
    await registry.close()
    assert registry.find("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_group_that_is_dropped_is_dead_and_wakes_nobody(rig: Rig) -> None:
    registry = rig.coordinator.registry
    await rig.join_now()
    shard = registry.find("g")
    assert isinstance(shard, Shard)
    group = shard.entries["g"]
    registry.drop(shard, group)
    assert group.state is GroupState.DEAD
    assert "g" not in shard.entries
    stored = len(rig.log.entries())
    await rig.advance(3_600_000)
    assert len(rig.log.entries()) == stored


async def test_the_record_of_a_group_does_not_come_behind_its_tombstone(rig: Rig) -> None:
    joined = await rig.join_now()
    await rig.sync_now(joined)
    # Empty now, which is to be written, and deleted before it was.
    rig.coordinator.leave("g", [LeavingMember(joined.member_id)])
    assert await rig.coordinator.delete_groups(["g"]) == {"g": ErrorCode.NONE}
    await turns()
    assert (await rig.fail_over()).list_groups()[1] == []


async def test_the_first_step_of_work_that_is_begun_is_made_at_once(rig: Rig) -> None:
    registry = rig.coordinator.registry
    steps: list[str] = []

    async def work(name: str, turns_to_wait: int) -> str:
        try:
            steps.append(name)
            for _ in range(turns_to_wait):
                await asyncio.sleep(0)
        finally:
            steps.append(f"end of {name}")
        return name

    waiting, short = registry.begin(work("a", 3)), registry.begin(work("b", 0))
    assert steps == ["a", "b", "end of b"] and short.done()
    assert [await waiting, await short] == ["a", "b"]
    ended = registry.begin(work("c", 1000))
    await turns()
    await registry.close()
    assert ended.cancelled() and steps[-1] == "end of c"


async def test_work_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise RuntimeError("out of luck")

    rig = await Rig().start()
    rig.coordinator.registry.spawn(fail())
    await turns()
    with pytest.raises(RuntimeError):
        await rig.coordinator.registry.begin(fail())
    assert caplog.messages.count("Work of the group coordinator failed") == 2
    await rig.coordinator.shutdown()
