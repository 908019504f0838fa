"""InitProducerId (22), versions 0 to 5.

Behaviour: gives an idempotent producer a new id with epoch 0; any broker can answer.
Versions: from 3 on a producer may name its old id and epoch (KIP-360): only one of the two is
INVALID_REQUEST; without a transactional id the answer is a new id all the same.
Left out: transactions. A transactional id is refused with UNSUPPORTED_VERSION, which no client
retries, so that a transactional producer fails at once; an empty one is INVALID_REQUEST as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import (
    Operation,
    ResourceType,
    allowed,
    allowed_on_any,
    allowed_on_cluster,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

_NONE_GIVEN = -1


async def handle(ctx: RequestContext, request: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
    error = _missing_right(ctx, request.transactional_id)
    if error is ErrorCode.NONE:
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


def _missing_right(ctx: RequestContext, transactional_id: str | None) -> ErrorCode:
    """Whoever may write to some topic may be idempotent (KIP-679)."""
    if ctx.authorizer is None:
        return ErrorCode.NONE
    if transactional_id is not None:
        if allowed(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.NONE
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if allowed_on_cluster(ctx, Operation.IDEMPOTENT_WRITE, log_denied=False) or allowed_on_any(
        ctx, Operation.WRITE, ResourceType.TOPIC
    ):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _refusal(request: m.InitProducerIdRequest) -> ErrorCode:
    has_id = request.producer_id != _NONE_GIVEN
    has_epoch = request.producer_epoch != _NONE_GIVEN
    if has_id != has_epoch or request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE
