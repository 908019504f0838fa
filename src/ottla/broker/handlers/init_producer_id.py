"""InitProducerId (22), versions 0 to 5.

Behaviour: gives an idempotent producer a new id with epoch 0; any broker can answer.
Versions: from 3 on a producer may name its old id and epoch (KIP-360): only one of the two is
INVALID_REQUEST; without a transactional id the answer is a new id all the same.
Left out: transactions. A transactional id is refused with UNSUPPORTED_VERSION, which no client
retries, so that a transactional producer fails at once; an empty one is INVALID_REQUEST as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

_NONE_GIVEN = -1


async def handle(ctx: RequestContext, request: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
    error = _refusal(request)
    producer_id = _NONE_GIVEN
    if error is ErrorCode.NONE:
        try:
            producer_id = await ctx.services.producer_ids.next_id()
        except KafkaError as failure:
            error = failure.code
    return m.InitProducerIdResponse(
        error_code=error,
        producer_id=producer_id,
        producer_epoch=0 if error is ErrorCode.NONE else _NONE_GIVEN,
    )


def _refusal(request: m.InitProducerIdRequest) -> ErrorCode:
    has_id = request.producer_id != _NONE_GIVEN
    has_epoch = request.producer_epoch != _NONE_GIVEN
    if has_id != has_epoch or request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE
