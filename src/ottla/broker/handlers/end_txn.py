"""EndTxn (26), versions 0 to 4.

Behaviour: decides the transaction and answers when the decision is in the log of the coordinator;
the markers go to the partitions after that. Asked again with the same outcome: NONE once it is
complete, CONCURRENT_TRANSACTIONS before; with the other one: INVALID_TXN_STATE.
Versions: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2; 4 says that the client knows
TRANSACTION_ABORTABLE, which is never sent.
Left out: version 5, which bumps the epoch with every transaction (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.coordinator import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_OLDEST_WITH_FENCED = 2


async def handle(ctx: RequestContext, request: m.EndTxnRequest) -> m.EndTxnResponse:
    transactional_id = request.transactional_id
    if not allowed(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return m.EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    error = await ctx.services.transactions.end(
        transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        commit=request.committed,
    )
    if error is ErrorCode.PRODUCER_FENCED and ctx.version < _OLDEST_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return m.EndTxnResponse(error_code=error)
