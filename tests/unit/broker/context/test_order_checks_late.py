"""An order on a connection that its controller gave up, after newer ones on the next connection.
Neither epoch tells them apart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.context.request import CloseConnection, RequestContext
from ottla.broker.handlers import carry_offsets, resize_order, stop_replica
from ottla.broker.network.server import BrokerServer
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message
from tests.support.broker.cluster_messages import context, partition, update
from tests.support.broker.network_peers import Peer, leader, server
from tests.support.broker.replica_cluster import TP, Broker, MakeBrokers, brokers

__all__ = ["brokers", "leader", "server"]


def bytes_of(message: Message, version: int) -> bytes:
    return b"".join(framing.encode_request(message, version, 1, "controller"))


async def test_the_older_connection_is_closed(leader: Broker, server: BrokerServer) -> None:
    older, newer = Peer(server), Peer(server)

    def is_closed(peer: Peer) -> bool:
        return peer.transport.closed

    older.read(bytes_of(update({"t": [partition(0)]}), 7))
    newer.read(bytes_of(update({"t": [partition(0), partition(1)]}), 7))
    await asyncio.sleep(0)
    assert older.transport.written and newer.transport.written and not is_closed(older)
    older.read(bytes_of(update({"late": [partition(0)]}), 7))
    await asyncio.sleep(0)
    assert is_closed(older) and not is_closed(newer)
    assert not leader.cache.contains_topic("late")
    # The next controller is not held to the connections of this one.
    next_one = Peer(server)
    next_one.read(bytes_of(update({"next": [partition(0)]}, controller_epoch=2), 7))
    await asyncio.sleep(0)
    assert leader.cache.contains_topic("next")


class Waiting:
    """Something that an order waits for, and that takes as long as the test wants."""

    def __init__(self) -> None:
        self.reached, self.over = asyncio.Event(), asyncio.Event()

    async def __call__(self, *_: object) -> Any:
        self.reached.set()
        await self.over.wait()


async def overtake(ctx: RequestContext, handling: Any, waiting: Waiting) -> None:
    """Another order arrives on the next connection meanwhile."""
    task = asyncio.create_task(handling)
    await asyncio.wait_for(waiting.reached.wait(), 5)
    assert ctx.services.orders.epochs.is_newest(ctx.connection + 1)
    waiting.over.set()
    with pytest.raises(CloseConnection, match="is late"):
        await task


async def test_a_late_stop_deletes_nothing(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broker,) = await brokers(1)
    broker.order(0, 3, replicas=[0])
    waiting = Waiting()
    monkeypatch.setattr(stop_replica, "_spare", waiting)
    stop = m.StopReplicaRequest.StopReplicaPartitionState(leader_epoch=-2, delete_partition=True)
    request = m.StopReplicaRequest(
        controller_epoch=1,
        broker_epoch=-1,
        topic_states=[
            m.StopReplicaRequest.StopReplicaTopicState(topic_name="t", partition_states=[stop])
        ],
    )
    ctx = replace(broker.context(3), authorizer=None, connection=1)
    await overtake(ctx, stop_replica.handle(ctx, request), waiting)
    assert broker.manager.partitions.get(TP) is not None and broker.log.folder.exists()


@pytest.mark.parametrize("stage", [1, 3, 4])
async def test_a_late_order_of_a_resize(stage: int) -> None:
    waiting = Waiting()
    services = SimpleNamespace(
        # Nothing else of it may be called.
        resize_fences=SimpleNamespace(patience=waiting),
        orders=SimpleNamespace(epochs=OrderEpochs()),
        topic_settings=SimpleNamespace(load=lambda *_, **__: waiting()),
        replica_manager=SimpleNamespace(log_manager=None),
    )
    ctx = replace(context(0), services=cast("Any", services), connection=1)
    request = m.ResizeOrderRequest(controller_epoch=1, broker_epoch=-1, topic="t", stage=stage)
    await overtake(ctx, resize_order.handle(ctx, request), waiting)


async def test_late_offsets_are_not_carried() -> None:
    waiting = Waiting()
    services = SimpleNamespace(
        rename_fences=SimpleNamespace(patience=waiting, begin_carrying=lambda *_: None),
        orders=SimpleNamespace(epochs=OrderEpochs()),
    )
    ctx = replace(context(0), services=cast("Any", services), connection=1)
    request = m.CarryOffsetsRequest(controller_epoch=1, broker_epoch=-1, stage=1)
    await overtake(ctx, carry_offsets.handle(ctx, request), waiting)
