"""Orders for logs that have lost the id of their topic."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.replication.controller_orders import Order
from ottla.errors import ErrorCode
from ottla.storage.manager.shared_ids import SharedIds
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from tests.support.broker.replica_cluster import (
    TOPIC_ID,
    TP,
    MakeBrokers,
    brokers,
    client_batch,
)

__all__ = ["brokers"]


@pytest.mark.parametrize(
    ("leader", "is_synced", "kept"),
    [(1, False, 0), (0, False, 3), (1, True, 3), (-1, False, 3)],
    ids=["follower", "leader", "synced", "nobody leads"],
)
async def test_records_of_a_log_without_an_id(
    brokers: MakeBrokers, leader: int, is_synced: bool, kept: int
) -> None:
    """After a power cut they may be of an earlier topic of that name: a follower can have them
    from its leader, and what was synced had its id synced with it."""
    (broker,) = await brokers(1)
    broker.know([0, 1])
    log = broker.log_manager.get_or_create(TP, is_new=True, topic_id=ZERO_TOPIC_ID)
    log.append_as_leader(client_batch(3), leader_epoch=0)
    if is_synced:
        await broker.log_manager.flusher.flush(log)
    assert log.topic_id == ZERO_TOPIC_ID
    broker.order(leader, 1, replicas=[0, 1], is_new=False)
    assert log.topic_id == TOPIC_ID
    assert log.end_offset == kept


async def test_a_log_in_use_gets_its_id_and_keeps_its_records(brokers: MakeBrokers) -> None:
    """As where a controller begins to give ids."""
    (broker,) = await brokers(1)
    broker.know([0, 1])
    broker.order(0, 1, replicas=[0, 1], topic_id=ZERO_TOPIC_ID, version=1)
    await broker.produce(3)
    broker.order(1, 2, replicas=[0, 1])
    assert (broker.log.topic_id, broker.log.end_offset) == (TOPIC_ID, 3)


async def test_a_disk_that_takes_no_id_costs_its_own_partitions_only(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the whole request, which may be about thousands of others."""
    (broker,) = await brokers(1)
    broker.know([0, 1])
    broker.order(0, 1, replicas=[0, 1], topic_id=ZERO_TOPIC_ID, version=1)
    await broker.produce(3)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SharedIds, "add", full)
    # Of an epoch that it knows: it brings the id alone.
    assert broker.order(0, 1, replicas=[0, 1]) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.log_manager.dirs.offline() == [broker.log_manager.config.log_dirs[0]]
    assert broker.order(0, 2, replicas=[0, 1]) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_is_renamed_again_meanwhile_keeps_its_newest_name(
    brokers: MakeBrokers,
) -> None:
    """A log that nobody knows stands where the order wants it, and is flushed before it goes."""
    (broker,) = await brokers(1)
    logs = broker.log_manager
    log = logs.get_or_create(TopicPartition("older", 0), topic_id=TOPIC_ID)
    logs.get_or_create(TP).append_as_leader(client_batch(3), leader_epoch=0)
    order = Order(TP, TOPIC_ID, cast("Any", SimpleNamespace(replicas=[0])))
    late = asyncio.ensure_future(broker.orders.take_over_renamed([order]))
    await asyncio.sleep(0)
    newest = TopicPartition("newest", 0)
    assert await logs.renamed.rename({newest: log}) == [newest]
    await late
    assert (logs.get(newest), logs.get(TP)) == (log, None)
    assert len(logs.strays.folders) == 1
