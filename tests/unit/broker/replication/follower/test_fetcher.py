"""Followers and their leader: replication, ISR, truncation."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.replication.follower import fetcher
from ottla.broker.replication.follower.requests import FetchLimits
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from tests.support.broker.replica_cluster import (
    EVERYTHING,
    TP,
    DirectConnection,
    MakeBrokers,
    brokers,
    lead,
    offsets,
    until,
)

__all__ = ["brokers"]


async def test_acks_all_waits_for_the_followers(brokers: MakeBrokers) -> None:
    members = await brokers(3)
    lead(members, 0, 1)
    result = await members[0].produce(5, acks=-1)
    assert result.error is ErrorCode.NONE
    for broker in members:
        assert broker.log.end_offset == 5
    assert members[0].log.high_watermark == 5
    await until(lambda: all(broker.log.high_watermark == 5 for broker in members))
    assert offsets(members[2].log) == offsets(members[0].log) == [0, 1, 2, 3, 4]
    assert members[1].log.epochs.entries() == [(1, 0)]


async def test_acks_all_times_out_and_the_wait_is_gone(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    result = await members[0].produce(acks=-1, timeout_ms=40)
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    assert len(members[0].partition.produce_waits) == 0
    assert members[0].log.end_offset == 1 and members[0].log.high_watermark == 0


async def test_a_resigning_leader_answers_whoever_waits(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    waiting = asyncio.ensure_future(members[0].produce(acks=-1))
    await until(lambda: len(members[0].partition.produce_waits) == 1)
    members[0].order(1, 2, replicas=[0, 1])
    assert (await waiting).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_min_insync_replicas_before_and_after_the_append(brokers: MakeBrokers) -> None:
    members = await brokers(2, min_insync_replicas=2)
    leader = members[0]
    lead(members, 0, 1, isr=[0])
    refused = await leader.produce(acks=-1)
    assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS and leader.log.end_offset == 0
    assert (await leader.produce(acks=1)).error is ErrorCode.NONE
    del DirectConnection.brokers[0]
    lead(members, 0, 2, isr=[0, 1])
    waiting = asyncio.ensure_future(leader.produce(acks=-1))
    await until(lambda: len(leader.partition.produce_waits) == 1)
    leader.clock.ahead_ms += 30_001
    leader.partition.maybe_shrink(leader.clock.monotonic_ms())
    assert leader.isr.accept() == (0,)
    assert (await waiting).error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_a_follower_outside_the_isr_catches_up_and_comes_in(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    lead([leader], 0, 1, isr=[0])
    leader.order(0, 2, replicas=[0, 1], isr=[0])
    for _ in range(30):
        await leader.produce(10)
    members[1].order(0, 2, replicas=[0, 1], isr=[0])
    await until(lambda: TP in leader.isr.changes)
    assert leader.isr.changes[TP].isr == (0, 1)
    assert leader.isr.changes[TP].partition_epoch == 2
    assert leader.partition.in_sync.members == (0,) and leader.partition.in_sync.maximal == {0, 1}
    assert leader.isr.accept() == (0, 1)
    assert (
        leader.partition.in_sync.members == (0, 1) and leader.partition.in_sync.partition_epoch == 3
    )
    assert members[1].log.end_offset == 300


async def test_a_former_leader_truncates_what_was_not_replicated(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    old, new = members
    lead(members, 0, 1)
    assert (await old.produce(3, acks=-1)).error is ErrorCode.NONE
    del DirectConnection.brokers[0]  # the old leader is cut off and goes on alone
    for _ in range(4):
        await old.produce(2)
    assert old.log.end_offset == 11
    new.order(1, 2, replicas=[0, 1], isr=[1])
    for broker in members:
        broker.know([0, 1], leader=1)
    await new.produce(5)
    DirectConnection.brokers[0] = old
    old.order(1, 2, replicas=[0, 1], isr=[1])
    await until(lambda: old.log.end_offset == new.log.end_offset == 8)
    assert offsets(old.log) == offsets(new.log) == list(range(8))
    assert old.log.epochs.entries() == new.log.epochs.entries() == [(1, 0), (2, 3)]
    for log in (old.log, new.log):
        log.release()
    stored = [broker.log.active.path(".log").read_bytes() for broker in members]
    assert stored[0] == stored[1]


async def test_truncation_over_several_epochs(brokers: MakeBrokers) -> None:
    """Both logs hold epochs the other has never seen (KIP-279)."""
    members = await brokers(2)
    first, second = members
    DirectConnection.brokers = {}
    first.order(0, 1, replicas=[0, 1])
    second.order(1, 2, replicas=[0, 1])
    await first.produce(4)
    first.order(0, 3, replicas=[0, 1])
    await first.produce(4)
    await second.produce(2)
    second.order(1, 4, replicas=[0, 1])
    await second.produce(3)
    second.order(1, 5, replicas=[0, 1])
    await second.produce()
    DirectConnection.brokers = {broker.id: broker for broker in members}
    first.know([0, 1], leader=1)
    first.order(1, 5, replicas=[0, 1])
    await until(lambda: first.log.epochs.entries() == second.log.epochs.entries())
    await until(lambda: first.log.end_offset == second.log.end_offset == 6)
    assert first.log.epochs.entries() == [(2, 0), (4, 2), (5, 5)]
    for broker in members:
        broker.log.release()
    stored = [broker.log.active.path(".log").read_bytes() for broker in members]
    assert stored[0] == stored[1]


async def test_a_follower_before_the_leaders_start_begins_there(brokers: MakeBrokers) -> None:
    members = await brokers(2, segment_bytes=300, retention_ms=-1)
    leader, follower = members
    lead([leader], 0, 1, isr=[0])
    for _ in range(10):
        await leader.produce(2)
    leader.log.advance_start_offset(13)
    leader.log_manager.housekeeping.delete_old_segments()
    leader.order(0, 2, replicas=[0, 1], isr=[0])
    follower.order(0, 2, replicas=[0, 1], isr=[0])
    await until(lambda: follower.log.end_offset == 20)
    await until(lambda: follower.log.start_offset == 13)
    # 13 is inside a batch, which is stored whole.
    assert follower.log.segments[0].base_offset == 12
    assert offsets(follower.log)[:2] == [12, 13]


async def test_a_lost_connection_is_tried_again(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    waiting = asyncio.ensure_future(leader.produce(acks=-1, timeout_ms=3000))
    await until(lambda: DirectConnection.refused > 1)
    DirectConnection.brokers[0] = leader
    assert (await waiting).error is ErrorCode.NONE


async def test_a_lost_session_is_made_anew(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    leader = members[0]
    lead(members, 0, 1)
    assert (await leader.produce(acks=-1)).error is ErrorCode.NONE
    assert len(leader.fetches.sessions) == 1
    (session_id,) = leader.fetches.sessions._sessions
    leader.fetches.sessions.close(session_id)
    assert (await leader.produce(acks=-1, timeout_ms=2000)).error is ErrorCode.NONE


async def test_a_new_partition_need_not_wait_for_the_request_under_way(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = await brokers(2)
    monkeypatch.setattr(
        fetcher, "FetchLimits", lambda *_: FetchLimits(3000, 1, EVERYTHING, EVERYTHING)
    )
    leader, follower = members
    lead(members, 0, 1)
    await leader.produce(acks=-1)
    for number in (1, 2):  # the second comes while the first still has its own connection
        tp = TopicPartition("t", number)
        for broker in members:
            broker.order(0, 1, replicas=[0, 1], tp=tp)
        for _ in range(2):
            result = await leader.produce(acks=-1, tp=tp, timeout_ms=1000)
            assert result.error is ErrorCode.NONE
    log = follower.manager.partitions.log(TopicPartition("t", 2))
    assert log is not None and log.end_offset == 2
    assert (await leader.produce(acks=-1)).error is ErrorCode.NONE


async def test_two_followers_come_back_one_after_the_other_without_traffic(
    brokers: MakeBrokers,
) -> None:
    members = await brokers(3)
    lead(members, 0, 1, isr=[0])
    await until(lambda: bool(members[0].isr.changes))
    at_rest = members[0].partition.watchers
    # Both wait at the end for more, one change is under way.
    await until(lambda: len(at_rest) == 2 and all(entry.session.wait for entry in at_rest))
    assert len(members[0].isr.accept()) == 2
    await until(lambda: bool(members[0].isr.changes))
    assert set(members[0].isr.accept()) == {0, 1, 2}
    session_of = members[0].partition.watchers
    await until(lambda: all(entry not in entry.session.dirty for entry in session_of))


async def test_a_leaving_broker_follows_nobody_anew(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    lead(members, 1, 1)
    members[1].manager.fetchers.is_leaving = True
    lead(members, 0, 2, isr=[0])
    result = await members[0].produce(1, acks=-1, timeout_ms=200)
    assert result.error is ErrorCode.NONE and not members[0].isr.changes
    assert members[1].log.end_offset == 0
