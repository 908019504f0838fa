"""What the store is asked about orders of a controller before they are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.context.request import CloseConnection
from ottla.errors import ErrorCode
from ottla.metadata.store import NoNodeError, StoreError
from ottla.metadata.znodes import TopicPartitionStateZnode

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.replication.controller_orders import Order
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicPartition

_READ_TOGETHER = 1_000


class Epochs(Protocol):
    """LeaderAndIsr, StopReplica, UpdateMetadata."""

    broker_epoch: int
    controller_epoch: int


async def refusal(ctx: RequestContext, order: Epochs) -> ErrorCode:
    """Why an order is refused as a whole; NONE where it is good. While the store cannot say whether
    there is such a controller, nothing is answered: a controller whose connection is closed sends
    its order again."""
    epochs = ctx.services.orders.epochs
    try:
        error = await epochs.check(order.broker_epoch, order.controller_epoch)
    except StoreError as failure:
        raise _once_more(ctx, failure) from None
    return _unless_late(ctx, error)


def refusal_by_now(ctx: RequestContext, order: Epochs) -> ErrorCode:
    """Why it is refused after a wait: a newer controller may have spoken up since, or this broker
    registered again, or the same controller sent newer orders on a new connection."""
    epochs = ctx.services.orders.epochs
    return _unless_late(ctx, epochs.refusal(order.broker_epoch, order.controller_epoch))


def _unless_late(ctx: RequestContext, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.NONE and not ctx.services.orders.epochs.is_newest(ctx.connection):
        raise CloseConnection(f"{ctx.api_name} is late, its controller has a newer connection")
    return error


async def from_nowhere(ctx: RequestContext, orders: Iterable[Order]) -> set[TopicPartition]:
    """Partitions that would get a leader epoch which the store does not know of."""
    ahead = [order for order in orders if ctx.services.orders.is_far_ahead(order)]
    if not ahead:
        return set()
    store = ctx.services.store
    unknown: set[TopicPartition] = set()
    try:
        await store.sync()
        for some in _slices(ahead):
            epochs = await asyncio.gather(*(_leader_epoch(store, order.tp) for order in some))
            unknown.update(
                order.tp
                for order, epoch in zip(some, epochs, strict=True)
                if epoch < order.state.leader_epoch
            )
    except StoreError as error:
        raise _once_more(ctx, error) from None
    return unknown


def _slices(orders: list[Order]) -> Iterable[list[Order]]:
    for start in range(0, len(orders), _READ_TOGETHER):
        yield orders[start : start + _READ_TOGETHER]


async def _leader_epoch(store: MetadataStore, tp: TopicPartition) -> int:
    try:
        state = TopicPartitionStateZnode.decode(*await store.get(TopicPartitionStateZnode.path(tp)))
    except NoNodeError:
        return -1
    return -1 if state is None else state.leader_epoch


def _once_more(ctx: RequestContext, error: StoreError) -> CloseConnection:
    text = f"{ctx.api_name} has to come again, the store did not answer: {error!r}"
    return CloseConnection(text)
