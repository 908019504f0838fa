"""InitProducerId (22), versions 0 to 5.

Behaviour: gives an idempotent producer a new id with epoch 0; any broker can answer. With a
transactional id its coordinator answers: the id that belongs to it, with the next epoch, which
fences off every producer before. An open transaction is aborted first (CONCURRENT_TRANSACTIONS
until then).
Versions: from 3 on a producer may name its old id and epoch (KIP-360): only one of the two is
INVALID_REQUEST; without a transactional id the answer is a new id all the same. PRODUCER_FENCED is
INVALID_PRODUCER_EPOCH before 4.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.coordinator import InitResult, ProducerIdentity
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import (
    Operation,
    ResourceType,
    allowed,
    allowed_on_any,
    allowed_on_cluster,
)
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_NONE_GIVEN = -1
_OLDEST_WITH_FENCED = 4


async def handle(ctx: RequestContext, request: m.InitProducerIdRequest) -> m.InitProducerIdResponse:
    error = _missing_right(ctx, request.transactional_id)
    if error is ErrorCode.NONE:
        error = _refusal(request)
    result = InitResult(error)
    if error is ErrorCode.NONE and request.transactional_id is None:
        result = await _new_id(ctx)
    elif error is ErrorCode.NONE and request.transactional_id is not None:
        result = await ctx.services.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, _expected(request)
        )
    error = result.error
    if error is ErrorCode.PRODUCER_FENCED and ctx.version < _OLDEST_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return m.InitProducerIdResponse(
        error_code=error, producer_id=result.producer_id, producer_epoch=result.epoch
    )


async def _new_id(ctx: RequestContext) -> InitResult:
    try:
        return InitResult(ErrorCode.NONE, await ctx.services.producer_ids.next_id(), 0)
    except KafkaError as failure:
        return InitResult(failure.code)


def _expected(request: m.InitProducerIdRequest) -> ProducerIdentity | None:
    if request.producer_id == _NONE_GIVEN:
        return None
    return ProducerIdentity(request.producer_id, request.producer_epoch)


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
    return ErrorCode.NONE
