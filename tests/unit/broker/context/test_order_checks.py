"""Orders that the store is asked about."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.broker.context import order_checks
from ottla.broker.context.request import CloseConnection
from ottla.broker.replication.controller_orders import Order
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.errors import ErrorCode
from ottla.metadata.store import ConnectionLossError
from ottla.metadata.znodes import LeaderAndIsr, TopicPartitionStateZnode
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import context
from tests.support.broker.replica_cluster import MakeBrokers, brokers

__all__ = ["brokers"]

ORDER = SimpleNamespace(broker_epoch=-1, controller_epoch=4)


async def test_while_the_store_is_away_an_order_has_to_come_again() -> None:
    """An error would be an answer, and a controller does not repeat what was answered."""

    async def ask(_everywhere: bool) -> int:
        raise ConnectionLossError

    for epochs in (OrderEpochs(ask_store=ask), OrderEpochs(controller_epoch=4, ask_store=ask)):
        ctx = context(6, orders=SimpleNamespace(epochs=epochs))
        if epochs.controller_epoch < ORDER.controller_epoch:
            with pytest.raises(CloseConnection, match="has to come again"):
                await order_checks.refusal(ctx, ORDER)
        else:
            assert await order_checks.refusal(ctx, ORDER) is ErrorCode.NONE


def order(partition: int, leader_epoch: int) -> Order:
    state = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader_epoch=leader_epoch)
    return Order(TopicPartition("t", partition), ZERO_TOPIC_ID, state)


async def test_leader_epochs_far_ahead_are_looked_up(
    brokers: MakeBrokers, store: EmbeddedStore
) -> None:
    (broker,) = await brokers(1)
    broker.services.store = store
    for path in (
        "/brokers",
        "/brokers/topics",
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
    ):
        await store.create(path)
    for partition, epoch in ((0, 5_000), (1, 4_999)):
        path = TopicPartitionStateZnode.path(TopicPartition("t", partition))
        await store.create(path.removesuffix("/state"))
        state = LeaderAndIsr(0, epoch, (0,), 1, 0)
        await store.create(path, TopicPartitionStateZnode.encode(state))
    asked = [order(0, 5_000), order(1, 5_000), order(2, 5_000), order(3, 900)]
    unknown = await order_checks.from_nowhere(broker.context(5), asked)
    assert sorted(tp.partition for tp in unknown) == [1, 2]
    # What is known here already tells how far the next one can be.
    broker.order(0, 4_500, replicas=[0])
    assert await order_checks.from_nowhere(broker.context(5), [order(0, 5_400)]) == set()
