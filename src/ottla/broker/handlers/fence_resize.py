"""FenceResize (20010), version 0: Ottla's own, not known to Apache Kafka (ADR 53).

Behaviour: Fence -1 asks for a fence: from then on leaders refuse records of the topic, coordinators
its offsets and new transactions with it. The answer comes when every record that was taken is
stored by all in-sync replicas, and every transaction has ended; the ends of the partitions do not
move any more, and `Ends` has them, as their leaders say. (A former leader that is cut off from the
store does not know that it is none, and tells clients of less.) Where that takes too long the fence
is lifted again (51). With the number of a fence the request says that it is still wanted: one that
nobody asks for during ten seconds is lifted, and none stands longer than a minute (74 from then
on). 7 where it takes longer than TimeoutMs, or a broker came or went; 5 while a partition has no
leader; 55 where there is no resize, 103 where it is that of a topic with
another id.
Versions: one.
Rights: ALTER, DELETE and CREATE on the topic.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.resize_rights import answer_of, check_rights, message_of
from ottla.errors import KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.FenceResizeRequest) -> m.FenceResizeResponse:
    resizes, late = ctx.services.controller.resizes, "The fence does not stand yet."
    try:
        check_rights(ctx, request.topic)
        fenced = await answer_of(resizes.fence(request), request.timeout_ms, late)
    except KafkaError as error:
        return m.FenceResizeResponse(error_code=error.code, error_message=message_of(error))
    return m.FenceResizeResponse(
        fence=fenced.fence,
        ends=[
            m.FenceResizeResponse.FencedPartition(partition_index=partition, end_offset=end)
            for partition, end in sorted(fenced.ends.items())
        ],
    )
