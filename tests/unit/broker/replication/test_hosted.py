"""The table of partitions: what is here, offline, elsewhere or nowhere."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from tests.support.broker.replica_cluster import TP, MakeBrokers, brokers

__all__ = ["brokers"]


async def test_what_is_not_here_is_refused_by_what_is_known_of_it(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    table = broker.manager.partitions
    nowhere = TopicPartition("nowhere", 0)

    def refusal(tp: TopicPartition) -> ErrorCode:
        with pytest.raises(KafkaError) as raised:
            table.require(tp)
        return raised.value.code

    # The metadata cache knows of "t" before the controller has assigned it.
    assert refusal(TP) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(nowhere) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert table.is_known(TP) and not table.is_known(nowhere)
    assert table.current_leader(TP) == (0, 5) and table.current_leader(nowhere) == (-1, -1)
    entered = table.enter(TP)
    assert table.enter(TP) is table.require(TP) is table.get(TP) is entered
    assert list(table) == [entered] and table.log(TP) is None
    assert table.set_offline(TP) is entered and list(table) == []
    assert refusal(TP) is ErrorCode.KAFKA_STORAGE_ERROR
    assert table.is_offline(TP) and table.offline_count == 1 and table.is_known(TP)


async def test_a_partition_that_is_taken_out_is_not_offline(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1)
    table = broker.manager.partitions
    entered = table.enter(TP)
    assert table.remove(TP) is entered and table.remove(TP) is None
    assert table.get(TP) is None and not table.is_offline(TP)
