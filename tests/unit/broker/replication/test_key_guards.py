"""Leaders refuse keys of other partitions while the guard of a resize stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.replication.append import ProduceResult
from ottla.errors import ErrorCode
from ottla.topics.key_guard import KeyGuard
from ottla.topics.partitioners import Partitioner, partition_of
from ottla.types import TopicPartition
from ottla.wire import records
from ottla.wire.compression import GZIP, NONE, ZSTD
from tests.support.broker.replica_cluster import Broker, MakeBrokers, brokers

__all__ = ["brokers"]

PARTITIONS = 2
TP = TopicPartition("t", 1)


def keys(at_home: int) -> list[bytes]:
    """Some that live in a partition."""
    candidates = [str(number).encode() for number in range(100)]
    return [k for k in candidates if partition_of(Partitioner.MURMUR2, k, PARTITIONS) == at_home]


def batch(*given: bytes | None, codec: int = NONE) -> memoryview:
    items = [records.Record(key, b"v", 1_700_000_000_000) for key in given]
    return memoryview(bytearray(records.build_batch(items, compression=codec)))


async def guarded(brokers: MakeBrokers, lasts_ms: int = 600_000) -> Broker:
    (broker,) = await brokers(1)
    broker.know([0], partitions=PARTITIONS)
    broker.order(0, 1, replicas=[0], tp=TP)
    guard = KeyGuard(Partitioner.MURMUR2, broker.clock.now_ms() + lasts_ms)
    log = broker.manager.partitions.log(TP)
    assert log is not None
    log.use_settings(replace(log.settings, ottla_key_guard=guard.encode()))
    return broker


async def send(broker: Broker, data: memoryview, client: str = "one") -> ProduceResult:
    sent = await broker.manager.appends.append({TP: data}, acks=1, timeout_ms=1, client_id=client)
    return sent[TP]


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
async def test_one_misplaced_key_ends_the_batch(brokers: MakeBrokers, codec: int) -> None:
    broker = await guarded(brokers)
    right, wrong = keys(1), keys(0)
    assert (await send(broker, batch(*right[:5], None, codec=codec))).error is ErrorCode.NONE
    bad = batch(right[0], wrong[0], right[1], wrong[1], codec=codec)
    first = await send(broker, bad)
    assert first.error is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it may not know the topic's shape"
    broker.clock.ahead_ms += 1500
    then = await send(broker, bad)
    assert then.error is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in then.record_errors] == [1, 3]
    other = await send(broker, bad, client="two")
    assert other.error is ErrorCode.NOT_LEADER_OR_FOLLOWER, "each client is sent for metadata"
    log = broker.manager.partitions.log(TP)
    assert log is not None and log.end_offset == 6


async def test_after_the_next_resize_clients_are_sent_for_metadata_again(
    brokers: MakeBrokers,
) -> None:
    """Java asks for it only by such an error, and else for minutes chooses by the old number."""
    broker = await guarded(brokers)
    bad = batch(keys(0)[0])
    assert (await send(broker, bad)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.clock.ahead_ms += 1500
    assert (await send(broker, bad)).error is ErrorCode.INVALID_RECORD
    log = broker.manager.partitions.log(TP)
    assert log is not None
    guard = KeyGuard(Partitioner.MURMUR2, broker.clock.now_ms() + 600_000)
    log.use_settings(replace(log.settings, ottla_key_guard=guard.encode()))
    assert (await send(broker, bad)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_guard_ends_with_its_time(brokers: MakeBrokers) -> None:
    broker = await guarded(brokers)
    log = broker.manager.partitions.log(TP)
    assert log is not None
    assert (await send(broker, batch(keys(0)[0]))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.clock.ahead_ms += 600_001
    assert (await send(broker, batch(keys(0)[0]))).error is ErrorCode.NONE
    assert log.settings.ottla_key_guard == "", "the direct lane may take the next batch"


async def test_the_direct_lane_leaves_guarded_batches_alone(brokers: MakeBrokers) -> None:
    broker = await guarded(brokers)
    partition = broker.manager.partitions.require(TP)
    log = partition.leader_log()
    taken = broker.manager.appends.append_plain(partition, log, [batch(keys(0)[0])], 1)
    assert taken[0] == [] and log.end_offset == 0
