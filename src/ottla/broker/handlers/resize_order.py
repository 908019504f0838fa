"""ResizeOrder (20013), version 0: Ottla's own, from the controller that resizes a topic (ADR 53).

Behaviour: stage 0 fences a topic: leaders take no records (NOT_LEADER_OR_FOLLOWER), coordinators no
offsets of it and no transactions with it; `Busy` says how much is still under way, and `Ends` where
the partitions that the broker leads end once nothing is. Stage 1 stores
offsets for groups under the shadow's name. Stage 2 also closes the topic to consumers, and ends the
logs that have not the id that the topic has now (56 where the store cannot be asked). Stage 3
makes the shadow's offsets those of the topic and sends members away who read it. Stage 4 lets
leaders take records again, stage 5 lifts everything. Stages 1 and 3 name the partitions of
`__consumer_offsets` in which nothing is left to be done. All can be done again. Stale epochs give
77 and 11, as for other orders of a controller.
Versions: one.
Left out: nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.admin.fence_watches import pause_unless
from ottla.broker.context import order_checks
from ottla.errors import ErrorCode
from ottla.metadata.store import StoreError
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

logger = logging.getLogger(__name__)
_STAGE = 1


async def handle(ctx: RequestContext, request: m.ResizeOrderRequest) -> m.ResizeOrderResponse:
    response, fences = m.ResizeOrderResponse, ctx.services.resize_fences
    if not ctx.is_from_controller or not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION):
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = await order_checks.refusal(ctx, request)
    if error is not ErrorCode.NONE:
        return response(error_code=error)
    topic, shadow = request.topic, request.shadow
    match request.stage:
        case 0:
            busy = await fences.fence(topic, request.topic_id)
            if isinstance(busy, ErrorCode):
                return response(error_code=busy)
            ends = [] if busy else sorted(fences.ends(topic).items())
            return response(
                busy=busy,
                ends=[
                    response.FencedPartition(partition_index=partition, end_offset=end)
                    for partition, end in ends
                ],
            )
        case 1 | 3:
            return await _carry(ctx, request)
        case 2:
            fences.close_topic(topic, request.topic_id, shadow)
            return response(error_code=await _end_old_logs(ctx, topic))
        case 4:
            # The swap has changed the topic's configs too: its guard stands before records come.
            settings, logs = ctx.services.topic_settings, ctx.services.replica_manager.log_manager
            await settings.load([topic], again=[topic], is_fresh=True)
            error = order_checks.refusal_by_now(ctx, request)
            if error is not ErrorCode.NONE:
                return response(error_code=error)
            logs.update_settings(topic, settings.of(topic))
            fences.open_writes(topic)
            return response()
        case 5:
            fences.lift(topic)
            return response()
        case _:
            return response(error_code=ErrorCode.INVALID_REQUEST)


async def _carry(ctx: RequestContext, request: m.ResizeOrderRequest) -> m.ResizeOrderResponse:
    response, fences = m.ResizeOrderResponse, ctx.services.resize_fences
    await fences.patience(request.partitions)
    error = order_checks.refusal_by_now(ctx, request)
    if error is not ErrorCode.NONE:
        return response(error_code=error)
    if request.stage == _STAGE:
        done = await fences.stage(request.topic, request.shadow, _offsets(request))
    else:
        done = await fences.switch(request.topic, request.shadow)
    await pause_unless(done.partitions, request.partitions)
    return response(partitions=done.partitions, groups=done.groups, members=done.members)


async def _end_old_logs(ctx: RequestContext, topic: str) -> ErrorCode:
    try:
        await ctx.services.stale_logs.spare_other_lives([topic])
    except StoreError as error:
        # The order to lead or follow the new topic looks again, as does a new session.
        logger.warning("logs of %s may be of the topic before: %r", topic, error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _offsets(request: m.ResizeOrderRequest) -> dict[str, dict[int, int]]:
    return {
        group.group_id: {each.partition_index: each.offset for each in group.offsets}
        for group in request.groups
    }
