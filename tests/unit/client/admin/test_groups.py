"""Calls for groups find their coordinator, also where it goes away amid one."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.groups import GroupAdmin
from ottla.client.cluster import Cluster
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka


async def test_a_coordinator_that_says_nothing_leaves_time_for_its_successor() -> None:
    ranges = RANGES | {10: (0, 2), 42: (0, 1)}
    first, second = await FakeKafka(1, ranges).start(), await FakeKafka(2, ranges).start()
    first.peers = [first, second]
    coordinator = second

    def found(_: Any) -> m.FindCoordinatorResponse:
        return m.FindCoordinatorResponse(
            node_id=coordinator.node_id, host="127.0.0.1", port=coordinator.port
        )

    def take_and_fail_over(_: Any) -> None:
        nonlocal coordinator
        coordinator = first

    result = m.DeleteGroupsResponse.DeletableGroupResult(group_id="g")
    first.on(m.FindCoordinatorRequest, found)
    first.on(m.DeleteGroupsRequest, lambda _: m.DeleteGroupsResponse(results=[result]))
    second.on(m.DeleteGroupsRequest, take_and_fail_over)
    try:
        async with Cluster(system_runtime(), first.address, request_timeout_ms=50) as cluster:
            await GroupAdmin(cluster).delete_group("g")
    finally:
        await first.stop()
        await second.stop()
    assert any(isinstance(request, m.DeleteGroupsRequest) for request, _ in first.seen)
