"""The rules of appends, in the general lane and in the direct one."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.replication.append import is_open_to_all
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from tests.support.broker.replica_cluster import TP, MakeBrokers, brokers, client_batch

__all__ = ["brokers"]


async def test_codes_of_append(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    appends = broker.manager.appends
    broker.order(0, 1, replicas=[0])
    known_elsewhere, nowhere = TopicPartition("t2", 0), TopicPartition("nowhere", 0)
    broker.know([0], topics=["t", "t2"])
    internal = TopicPartition("__consumer_offsets", 0)
    entries = {tp: client_batch() for tp in (known_elsewhere, nowhere, internal)}
    results = await appends.append(entries, acks=1, timeout_ms=100)
    assert results[known_elsewhere].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert results[nowhere].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert results[internal].error is ErrorCode.INVALID_TOPIC_EXCEPTION
    bad_acks = await appends.append({TP: client_batch()}, acks=5, timeout_ms=100)
    assert bad_acks[TP].error is ErrorCode.INVALID_REQUIRED_ACKS
    broker.order(0, 1, replicas=[0], tp=internal)
    for allowed in ({"from_coordinator": True}, {"client_id": "__admin_client"}):
        done = await appends.append({internal: client_batch()}, acks=-1, timeout_ms=1, **allowed)  # type: ignore[arg-type]
        assert done[internal].error is ErrorCode.NONE


async def test_flush_messages_makes_every_append_durable(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1, flush_messages=1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(3)
    assert broker.log.recovery_point == 3


async def test_a_partition_lost_during_the_flush_is_answered_at_once(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1, flush_messages=1)
    broker.know([0, 1])
    broker.order(0, 1, replicas=[0, 1])
    appends = broker.manager.appends
    appending = asyncio.ensure_future(
        appends.append({TP: client_batch()}, acks=-1, timeout_ms=60_000)
    )
    await asyncio.sleep(0)
    broker.order(1, 2, replicas=[0, 1])
    async with asyncio.timeout(30):
        results = await appending
    assert results[TP].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_direct_lane_is_open_for_valid_acks_and_ordinary_topics() -> None:
    assert [acks for acks in range(-3, 4) if is_open_to_all("t", acks)] == [-1, 0, 1]
    assert not is_open_to_all("__consumer_offsets", 1)


async def test_the_direct_lane_leaves_alone_what_needs_a_second_look(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    appends, batches = broker.manager.appends, [client_batch(2), client_batch(3)]
    assert appends.append_plain(broker.partition, broker.log, batches, 1) == ([0, 2], 5, -1)
    broker.partition.leader = 1
    bases, _, _ = appends.append_plain(broker.partition, broker.log, [client_batch()], 1)
    assert bases == [] and broker.log.end_offset == 5


async def test_the_direct_lane_flushes_nothing(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1, flush_messages=1)
    broker.order(0, 1, replicas=[0])
    appends = broker.manager.appends
    bases, _, _ = appends.append_plain(broker.partition, broker.log, [client_batch()], 1)
    assert bases == [] and broker.log.end_offset == 0


async def test_a_failed_folder_is_noticed_in_the_direct_lane(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(broker.partition.__class__, "append_plain", fails)
    appends = broker.manager.appends
    bases, _, _ = appends.append_plain(broker.partition, broker.log, [client_batch()], 1)
    assert bases == [] and broker.manager.partitions.is_offline(TP)


async def test_an_append_that_followers_have_ends_at_once(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0, 1])
    ends: list[ErrorCode] = []
    appends, partition = broker.manager.appends, broker.partition
    appends.append_plain(partition, broker.log, [client_batch()], -1)
    appends.when_replicated(partition, broker.log, 1, 1000, ends.append)
    assert ends == [] and len(partition.produce_waits) == 1
    partition.follower_fetched(1, 1, 0, broker.clock.monotonic_ms())
    appends.when_replicated(partition, broker.log, 1, 1000, ends.append)
    assert ends == [ErrorCode.NONE, ErrorCode.NONE] and len(partition.produce_waits) == 0
