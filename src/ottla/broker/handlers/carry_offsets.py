"""CarryOffsets (20007), version 0: Ottla's own, sent by a controller that renames (ADR 51).

Behaviour: stage 0 fences a topic: transactions that have it stay, no other takes it on, and the
answer says how many are open. Stage 1 carries the offsets that groups have of it over to another
topic: all as they are, or (`groups` is not null) those of some groups to new offsets; groups that
subscribe to it join anew. The answer names the partitions of `__consumer_offsets` in which nothing
is left to be done. Stage 2 lifts the fence. All can be done again. A coordinator that is being
loaded or has transactions open is waited for 200 ms. Stale epochs give 77 and 11, as for other
orders of a controller.
Versions: one.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.admin.fence_watches import pause_unless
from ottla.broker.context import order_checks
from ottla.coordinator.groups.carrying import NewOffset
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, allowed_on_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_FENCE, _CARRY, _RELEASE = range(3)


async def handle(ctx: RequestContext, request: m.CarryOffsetsRequest) -> m.CarryOffsetsResponse:
    response, services = m.CarryOffsetsResponse, ctx.services
    if not ctx.is_from_controller or not allowed_on_cluster(ctx, Operation.CLUSTER_ACTION):
        return response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = await order_checks.refusal(ctx, request)
    if error is not ErrorCode.NONE:
        return response(error_code=error)
    fences = services.rename_fences
    if request.stage == _FENCE:
        found = await fences.raise_for(request.from_topic, request.to_topic, request.topic_id)
        if isinstance(found, ErrorCode):
            return response(error_code=found)
        return response(open_transactions=found)
    if request.stage == _RELEASE:
        fences.lift(request.from_topic)
        return response()
    if request.stage != _CARRY:
        return response(error_code=ErrorCode.INVALID_REQUEST)
    fences.begin_carrying(request.from_topic, request.to_topic, request.topic_id)
    await fences.patience(request.partitions)
    error = order_checks.refusal_by_now(ctx, request)
    if error is not ErrorCode.NONE:
        return response(error_code=error)
    carried = await services.groups.carrier.carry(
        request.from_topic, request.to_topic, _explicit(request)
    )
    await pause_unless(carried.partitions, request.partitions)
    return response(
        partitions=carried.partitions,
        groups=carried.groups,
        offsets=carried.offsets,
        group_ids=carried.group_ids,
    )


def _explicit(request: m.CarryOffsetsRequest) -> dict[str, list[NewOffset]] | None:
    if request.groups is None:
        return None
    return {
        group.group_id: [
            NewOffset(new.partition_index, new.offset, new.leader_epoch, new.metadata)
            for new in group.offsets
        ]
        for group in request.groups
    }
