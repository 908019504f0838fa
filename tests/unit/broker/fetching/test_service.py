"""Fetches without a session: bounds, long polls, epochs."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from ottla.broker.fetching.params import FetchParams
from ottla.broker.replication.fetch_protocol import FetchPartition, FetchResult
from ottla.errors import ErrorCode
from ottla.storage.segment.slices import RecordSlice
from tests.support.broker.replica_cluster import (
    EVERYTHING,
    TP,
    Broker,
    DirectConnection,
    MakeBrokers,
    brokers,
    lead,
    until,
)

__all__ = ["brokers"]


async def read(broker: Broker, offset: int, **params: Any) -> Any:
    want = FetchPartition(offset, EVERYTHING)
    ((_, result),) = await broker.fetches.fetch(FetchParams(**params), [(TP, want)])
    return result


async def test_consumers_see_up_to_the_high_watermark(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    del DirectConnection.brokers[0]
    lead(members, 0, 1)
    leader = members[0]
    await leader.produce(4)
    result = await read(leader, 0)
    assert (result.error, result.size, result.high_watermark) == (ErrorCode.NONE, 0, 0)
    follower = FetchParams(replica_id=1)
    ((_, result),) = await leader.fetches.fetch(follower, [(TP, FetchPartition(0, EVERYTHING))])
    assert result.size > 0 and leader.log.high_watermark == 0
    await leader.fetches.fetch(follower, [(TP, FetchPartition(4, EVERYTHING))])
    assert leader.log.high_watermark == 4
    assert (await read(leader, 0)).size > 0
    stranger = FetchParams(replica_id=77)
    ((_, result),) = await leader.fetches.fetch(stranger, [(TP, FetchPartition(0, EVERYTHING))])
    assert (result.error, result.size) == (ErrorCode.NONE, 0)


async def test_large_records_stay_in_their_file(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    for _ in range(8):
        await broker.produce(1, value=bytes(20_000))
    result = await read(broker, 0)
    assert isinstance(result.records, RecordSlice)
    stored = broker.log.read(0, EVERYTHING, broker.log.end_offset, min_one_batch=True)
    assert result.records.read(0, EVERYTHING) == bytes(stored)
    assert isinstance((await read(broker, 0, max_bytes=50_000)).records, memoryview)


async def test_a_fetch_that_waits_holds_no_records(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(1, value=b"y" * 20_000)
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=60_000, min_bytes=50_000))
    await until(lambda: len(broker.partition.fetch_waits) == 1)
    held = [each for each in gc.get_objects() if isinstance(each, FetchResult) and each.records]
    assert held == []
    for _ in range(2):
        await broker.produce(1, value=b"y" * 20_000)
    assert (await asyncio.wait_for(waiting, 60)).size > 60_000


async def test_a_long_poll_ends_with_data_or_in_time(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert (await read(broker, 0, max_wait_ms=40)).size == 0
    assert 0.03 < loop.time() - start < 0.3
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000))
    await until(lambda: len(broker.partition.fetch_waits) == 1)
    await broker.produce()
    assert (await asyncio.wait_for(waiting, 1)).size > 0
    assert not broker.partition.fetch_waits and len(broker.manager.timeouts) == 0


async def test_a_long_poll_waits_for_min_bytes(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000, min_bytes=250))
    await until(lambda: len(broker.partition.fetch_waits) == 1)
    for _ in range(2):
        await broker.produce()
        # A wait that is over is taken off at once, before anybody is woken.
        assert len(broker.partition.fetch_waits) == 1
    await broker.produce()
    assert (await asyncio.wait_for(waiting, 1)).size >= 250


async def test_a_fetch_of_an_older_segment_does_not_wait(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    for _ in range(2):
        await broker.produce()
        broker.log.roll()
    # The last segment is empty and ends the log: there is nothing more to come in the others.
    for offset in (0, 1):
        found = await asyncio.wait_for(read(broker, offset, max_wait_ms=60_000, min_bytes=999), 1)
        assert found.size > 0
    await broker.produce()
    waiting = asyncio.ensure_future(read(broker, 2, max_wait_ms=60_000, min_bytes=999))
    await until(lambda: bool(broker.partition.fetch_waits))
    broker.log.roll()
    await broker.produce()
    assert (await asyncio.wait_for(waiting, 1)).size > 0


async def test_a_cancelled_long_poll_leaves_nothing_behind(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    waiting = asyncio.ensure_future(read(broker, 0, max_wait_ms=5000))
    await until(lambda: len(broker.partition.fetch_waits) == 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not broker.partition.fetch_waits and len(broker.manager.timeouts) == 0


async def test_fetch_epochs_and_ranges(brokers: MakeBrokers) -> None:
    members = await brokers(2)
    lead(members, 0, 3, isr=[0])
    leader = members[0]
    await leader.produce(3)
    for want, code in (
        (FetchPartition(0, 100, current_leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (FetchPartition(0, 100, current_leader_epoch=4), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FetchPartition(9, 100), ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchPartition(0, 100, last_fetched_epoch=9), ErrorCode.OFFSET_OUT_OF_RANGE),
        (FetchPartition(0, 100, topic_id=bytes(15) + b"\1"), ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        ((_, result),) = await leader.fetches.fetch(FetchParams(), [(TP, want)])
        assert result.error is code
    want = FetchPartition(0, EVERYTHING)
    ((_, result),) = await members[1].fetches.fetch(FetchParams(), [(TP, want)])
    assert result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    ((_, result),) = await members[1].fetches.fetch(FetchParams(any_replica=True), [(TP, want)])
    assert result.error is ErrorCode.NONE
