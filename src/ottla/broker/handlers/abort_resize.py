"""AbortResize (20012), version 0: Ottla's own, not known to Apache Kafka (ADR 53).

Behaviour: undoes a resize whose swap has not begun: the fence is lifted, the shadow deleted, and
the topic stays as it was. 55 where there is none, or where there is no way back any more.
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


async def handle(ctx: RequestContext, request: m.AbortResizeRequest) -> m.AbortResizeResponse:
    try:
        check_rights(ctx, request.topic)
        await answer_of(ctx.services.controller.resizes.abort(request.topic))
    except KafkaError as error:
        return m.AbortResizeResponse(error_code=error.code, error_message=message_of(error))
    return m.AbortResizeResponse()
