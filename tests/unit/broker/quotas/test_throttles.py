"""Replication throttles (KIP-73)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import ErrorCode
from tests.support.broker.replica_cluster import Broker, MakeBrokers, brokers, lead, until

__all__ = ["brokers"]


async def behind(brokers: MakeBrokers, **topic: object) -> tuple[Broker, Broker]:
    """A leader with 60 batches and a follower out of the ISR that has none of them."""
    leader, follower = await brokers(2, **topic)
    leader.order(0, 1, replicas=[0, 1], isr=[0])
    for _ in range(60):
        await leader.produce(10)
    return leader, follower


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_listed_replica_waits_for_its_share(
    brokers: MakeBrokers, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = await behind(
        brokers,
        leader_replication_throttled_replicas=("0:0",),
        follower_replication_throttled_replicas=("0:1",),
        max_message_bytes=2000,
    )
    one = leader if side == "leader" else follower
    quota = one.manager.throttles.leader if side == "leader" else one.manager.throttles.follower
    quota.limit = 100
    quota.record(2000, one.clock.monotonic_ms())  # it had its share
    held_back: list[bool] = []
    name = "holds_back" if side == "leader" else "must_pause"
    decide = getattr(one.manager.throttles, name)

    def watched(*arguments: Any) -> bool:
        held_back.append(decide(*arguments))
        return held_back[-1]

    monkeypatch.setattr(one.manager.throttles, name, watched)
    follower.order(0, 1, replicas=[0, 1], isr=[0])
    await until(lambda: held_back.count(True) > 1)
    assert all(held_back) and follower.log.end_offset == 0
    one.clock.ahead_ms += 12_000
    await until(lambda: follower.log.end_offset == 600)
    assert quota.rate(one.clock.monotonic_ms()) > 100


async def test_replicas_in_sync_are_never_held_back(brokers: MakeBrokers) -> None:
    members = await brokers(2, leader_replication_throttled_replicas=("*",))
    lead(members, 0, 1)
    members[0].manager.throttles.leader.limit = 1
    members[0].manager.throttles.leader.record(10_000, members[0].clock.monotonic_ms())
    result = await members[0].produce(3, acks=-1)
    assert result.error is ErrorCode.NONE


async def test_replicas_that_are_not_listed_are_not_counted(brokers: MakeBrokers) -> None:
    leader, follower = await behind(brokers, leader_replication_throttled_replicas=("0:7",))
    leader.manager.throttles.leader.limit = 1
    follower.order(0, 1, replicas=[0, 1], isr=[0])
    await until(lambda: follower.log.end_offset == 600)
    assert leader.manager.throttles.leader.rate(leader.clock.monotonic_ms()) == 0
