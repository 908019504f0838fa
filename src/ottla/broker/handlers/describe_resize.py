"""DescribeResize (20009), version 0: Ottla's own, not known to Apache Kafka (ADR 53).

Behaviour: the resizes that are under way, of one topic or (null) of all, as the controller knows
them (41, NOT_CONTROLLER, elsewhere). `Phase` is copying, fenced, moving or carrying.
Versions: one.
Rights: DESCRIBE on the topic; others are left out.
Left out: how far the copy is, which only the copying side knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, refused_names
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.DescribeResizeRequest) -> m.DescribeResizeResponse:
    resizes = ctx.services.controller.resizes.under_way()
    if resizes is None:
        return m.DescribeResizeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    wanted = [resize for resize in resizes if request.topic in (None, resize.topic)]
    hidden = refused_names(
        ctx, Operation.DESCRIBE, ResourceType.TOPIC, (resize.topic for resize in wanted)
    )
    return m.DescribeResizeResponse(
        resizes=[
            m.DescribeResizeResponse.ResizeState(
                topic=resize.topic,
                topic_id=resize.topic_id,
                shadow=resize.shadow,
                shadow_id=resize.shadow_id,
                partitions=resize.partitions,
                replication_factor=resize.replication_factor,
                partitioner=resize.partitioner,
                phase=resize.phase.value,
                fence=resize.fence,
                begun_ms=resize.begun_ms,
            )
            for resize in wanted
            if resize.topic not in hidden
        ]
    )
