"""LeaderAndIsr (4), versions 0 to 7.

Behaviour: the controller's orders to lead or follow, carried out at once; per-partition codes as in
Kafka 2.8 (broker/replication/controller_orders.py). Before, the configs of topics that are new here
are read, logs of other topics of the same name are deleted (if those ended) or set aside, logs of
the topic's former name get the new one (ADR 51), and those of a topic that was brought back are
taken out of the trash (ADR 50). A stale broker epoch gives 77, a stale controller epoch 11, one
that no controller has 31, all at the top and for every partition. A name or a number that no
partition can have gives 17 or 42, a leader epoch that is far ahead of the store's 75.
Versions: 0 and 1 name the topic in every partition, 2 to 4 group by name, from 5 on answers are
grouped by topic id. v6 adds the recovery state, v7 the KRaft flag; both are not used.
Left out: the type field (full or incremental): partitions that a full request does not name stay.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.bounds.collector import uncollected
from ottla.broker.context import order_checks
from ottla.broker.replication.controller_orders import Errors, Order
from ottla.broker.replication.order_log import Sender
from ottla.errors import ErrorCode
from ottla.metadata.store import StoreError
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.broker.context.services import BrokerServices

logger = logging.getLogger(__name__)
# From this version on answers are grouped by topic id.
_ANSWERS_BY_ID = 5
# A few milliseconds of work.
_ORDERS_AT_ONCE = 200


async def handle(ctx: RequestContext, request: m.LeaderAndIsrRequest) -> m.LeaderAndIsrResponse:
    services, controller = ctx.services, ctx.services.orders
    orders = [order async for order in ctx.turns.each(read_orders(request))]
    if not ctx.is_from_controller or not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION):
        return _refuse(request, ctx.version, orders, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    sender = Sender(request.controller_id, request.controller_epoch, ctx.header.correlation_id)
    controller.log.handling("LeaderAndIsr", sender, len(orders))
    clock = services.runtime.clock
    begun_ms = clock.monotonic_ms()
    response = await _obey(ctx, request, orders, sender)
    elapsed_ms = clock.monotonic_ms() - begun_ms
    controller.log.finished("LeaderAndIsr", sender, len(orders), elapsed_ms)
    return response


async def _obey(
    ctx: RequestContext, request: m.LeaderAndIsrRequest, orders: Sequence[Order], sender: Sender
) -> m.LeaderAndIsrResponse:
    services, controller = ctx.services, ctx.services.orders
    error = await order_checks.refusal(ctx, request)
    refused: Errors = {}
    if error is ErrorCode.NONE:
        refused, orders = await _possible(ctx, orders)
        controller.log.impossible(sender, refused)
        # Ahead of the store, so ahead of the controller that writes there.
        for tp in await order_checks.from_nowhere(ctx, orders):
            refused[tp] = ErrorCode.UNKNOWN_LEADER_EPOCH
        orders = [order for order in orders if order.tp not in refused]
        await _load_topic_configs(services, orders)
        await _settle_other_lives(services, request)
        error = await _prepare(ctx, request, orders)
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        controller.log.old_controller("LeaderAndIsr", sender, controller.epochs.controller_epoch)
    if error is not ErrorCode.NONE:
        return _refuse(request, ctx.version, read_orders(request), error)
    # Of thousands of new partitions nearly all that is made stays. No store is waited for here.
    with uncollected():
        errors, error = await _carry_out(ctx, request, orders, sender)
    if error is not ErrorCode.NONE:
        return _refuse(request, ctx.version, read_orders(request), error)
    return make_response(request, ctx.version, errors | refused)


async def _prepare(
    ctx: RequestContext, request: m.LeaderAndIsrRequest, orders: Sequence[Order]
) -> ErrorCode:
    """What the orders need on disk; why they do not count any more. Before each step: while the
    store was waited for, what an old order knows by a name may have got another one."""
    services, controller = ctx.services, ctx.services.orders
    steps: tuple[Callable[[], Awaitable[None]], ...] = (
        partial(controller.take_over_renamed, orders),
        partial(_bring_back, services, orders),
        partial(_make_logs_ahead, services, orders),
    )
    for step in steps:
        error = order_checks.refusal_by_now(ctx, request)
        if error is not ErrorCode.NONE:
            return error
        await step()
    return order_checks.refusal_by_now(ctx, request)


async def _make_logs_ahead(services: BrokerServices, orders: Sequence[Order]) -> None:
    with uncollected():
        await services.orders.make_logs_ahead(orders)


async def _carry_out(
    ctx: RequestContext, request: m.LeaderAndIsrRequest, orders: Sequence[Order], sender: Sender
) -> tuple[Errors, ErrorCode]:
    """Some at a time, while others are served: one request may be about thousands of partitions.
    What a newer controller orders in between counts, and so ends the request."""
    controller = ctx.services.orders
    # Of two orders for one partition the last one counts, as in Kafka's map of them.
    single = list({order.tp: order for order in orders}.values())
    errors = controller.carry_out(single[:_ORDERS_AT_ONCE], sender)
    for first in range(_ORDERS_AT_ONCE, len(single), _ORDERS_AT_ONCE):
        await ctx.turns.give()
        error = order_checks.refusal_by_now(ctx, request)
        if error is not ErrorCode.NONE:
            return errors, error
        errors |= controller.carry_out(single[first : first + _ORDERS_AT_ONCE], sender)
    return errors, ErrorCode.NONE


async def _possible(ctx: RequestContext, orders: Sequence[Order]) -> tuple[Errors, list[Order]]:
    """Partitions that there cannot be, and the orders for the others."""
    refused: Errors = {}
    possible = []
    async for order in ctx.turns.each(orders):
        error = ctx.services.orders.impossible(order.tp)
        if error is None:
            possible.append(order)
        else:
            refused[order.tp] = error.code
    return refused, possible


def read_orders(request: m.LeaderAndIsrRequest) -> Iterator[Order]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            tp = TopicPartition(topic.topic_name, state.partition_index)
            yield Order(tp, topic.topic_id, state)
    for each in request.ungrouped_partition_states:
        tp = TopicPartition(each.topic_name, each.partition_index)
        yield Order(tp, ZERO_TOPIC_ID, each)


async def _load_topic_configs(services: BrokerServices, orders: Sequence[Order]) -> None:
    """The logs that are made need their topics' configs at once."""
    logs = services.replica_manager.log_manager
    topics = dict.fromkeys(
        order.tp.topic for order in orders if services.broker_id in order.state.replicas
    )
    # What is known of a topic that has no log here may be of an earlier life.
    hosted = {order.tp.topic for order in orders if logs.get(order.tp)}
    again = [topic for topic in topics if topic not in hosted]
    await services.topic_settings.load(topics, again=again)


async def _settle_other_lives(services: BrokerServices, request: m.LeaderAndIsrRequest) -> None:
    """A topic that was made again while this broker was away: its old metadata goes first, and its
    old logs go or are set aside.

    The store says which id is the right one; where the request is wrong the logs stay.
    """
    logs = services.replica_manager.log_manager
    other = []
    for topic in request.topic_states:
        if services.metadata_cache.forget_other_life(topic.topic_name, topic.topic_id):
            # The configs went with it.
            await services.topic_settings.load([topic.topic_name])
        for state in topic.partition_states:
            known = logs.get(TopicPartition(topic.topic_name, state.partition_index))
            if known is not None and ZERO_TOPIC_ID not in (known.topic_id, topic.topic_id):
                other += [topic.topic_name] if known.topic_id != topic.topic_id else []
    if other:
        try:
            await services.stale_logs.settle(other, free_names=True)
            await services.topic_settings.load(other, again=other)
        except StoreError as error:
            logger.warning("logs of %s may be of topics that ended: %r", ", ".join(other), error)


async def _bring_back(services: BrokerServices, orders: Sequence[Order]) -> None:
    """What the orders are about may be in the trash: its topic came back (ADR 50)."""
    logs = services.replica_manager.log_manager
    known = logs.trash.topic_ids()
    if known:
        await logs.trash_moves.bring_back(
            {
                order.tp: order.topic_id
                for order in orders
                if order.topic_id in known and services.broker_id in order.state.replicas
            }
        )


def make_response(
    request: m.LeaderAndIsrRequest,
    version: int,
    errors: Errors,
    top_level: ErrorCode = ErrorCode.NONE,
) -> m.LeaderAndIsrResponse:
    response = m.LeaderAndIsrResponse
    if version < _ANSWERS_BY_ID:
        return response(
            error_code=top_level,
            partition_errors=[
                response.LeaderAndIsrPartitionError(
                    topic_name=tp.topic, partition_index=tp.partition, error_code=error
                )
                for tp, error in errors.items()
            ],
        )
    return response(
        error_code=top_level,
        topics=[
            response.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    response.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=errors[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _refuse(
    request: m.LeaderAndIsrRequest, version: int, orders: Iterable[Order], error: ErrorCode
) -> m.LeaderAndIsrResponse:
    """The same error for the request and every partition in it."""
    return make_response(request, version, {order.tp: error for order in orders}, error)
