"""The replica manager: what happens to a broker's partitions as a whole."""

from __future__ import annotations

import asyncio

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID
from tests.support.broker.replica_cluster import TP, MakeBrokers, brokers

__all__ = ["brokers"]


async def test_a_failing_disk_takes_the_partition_offline(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(broker.log.active.__class__, "append", fails)
    assert (await broker.produce()).error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError) as raised:
        broker.manager.partitions.require(TP)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.order(0, 2, replicas=[0]) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_an_order_uses_again_is_not_set_aside(brokers: MakeBrokers) -> None:
    """Nobody knew whose it was. It is flushed before it goes, and the order came meanwhile: records
    would be acknowledged into a folder that nobody loads."""
    (broker,) = await brokers(1)
    broker.know([0])
    log = broker.log_manager.get_or_create(TP, topic_id=ZERO_TOPIC_ID)
    task = asyncio.ensure_future(broker.manager.set_aside(TP))
    await asyncio.sleep(0)
    broker.order(0, 1, replicas=[0])
    await task
    await broker.produce(3)
    assert broker.log is log and log.folder.name == str(TP) and log.end_offset == 3
    assert not broker.log_manager.strays.folders
    # Without an order it goes, as before.
    broker.manager.stop_hosting(TP)
    await broker.manager.set_aside(TP)
    assert broker.log_manager.strays.folders == [log.folder]
