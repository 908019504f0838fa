"""The replica manager: what happens to a broker's partitions as a whole."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
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
