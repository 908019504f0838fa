"""Finding, making and letting go of groups."""

from __future__ import annotations

import pytest

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


async def test_work_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise RuntimeError("out of luck")

    rig = await Rig().start()
    rig.coordinator.registry.spawn(fail())
    await turns()
    assert "Work of the group coordinator failed" in caplog.messages
    await rig.coordinator.shutdown()
