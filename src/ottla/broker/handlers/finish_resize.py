"""FinishResize (20011), version 0: Ottla's own, not known to Apache Kafka (ADR 53).

Behaviour: under the fence of this number the shadow has got every record. The name gets the
shadow's id and shape, in one transaction of the store; the old topic goes to the trash, or ends.
Groups go on at the offsets that are given, and their members join anew. The answer comes when the
new topic takes records, at most after TimeoutMs (7: the swap goes on if it has begun, and asking
again waits for its end). 74 where the fence does not stand any more: then nothing has changed. A
topic that has the shadow's id already is answered as resized. 103 for ids that are not those of the
resize.
Versions: one.
Rights: ALTER, DELETE and CREATE on the topic.
Left out: more than 200,000 offsets (42).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.resize_rights import answer_of, check_rights, message_of
from ottla.errors import KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.FinishResizeRequest) -> m.FinishResizeResponse:
    groups = [
        (group.group_id, {each.partition_index: each.offset for each in group.offsets})
        for group in request.groups
    ]
    resizes, late = ctx.services.controller.resizes, "The resize has not ended yet: ask again."
    try:
        check_rights(ctx, request.topic)
        ended = await answer_of(resizes.finish(request, groups), request.timeout_ms, late)
    except KafkaError as error:
        return m.FinishResizeResponse(error_code=error.code, error_message=message_of(error))
    return m.FinishResizeResponse(
        topic_id=ended.topic_id, groups=ended.groups, members=ended.members
    )
