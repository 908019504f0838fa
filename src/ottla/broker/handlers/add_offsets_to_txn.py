"""AddOffsetsToTxn (25), versions 0 to 4.

Behaviour: as AddPartitionsToTxn for the partition of `__consumer_offsets` that the group belongs
to; the offsets themselves follow with TxnOffsetCommit to the group's coordinator.
Versions: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before 2; 4 says that the client knows
TRANSACTION_ABORTABLE, which is never sent.
Left out: transaction verification (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.coordinator import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed, require_group
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_OLDEST_WITH_FENCED = 2


async def handle(
    ctx: RequestContext, request: m.AddOffsetsToTxnRequest
) -> m.AddOffsetsToTxnResponse:
    services = ctx.services
    transactional_id = request.transactional_id
    if not allowed(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return m.AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    require_group(ctx, Operation.READ, request.group_id)
    error = await services.transactions.add_partitions(
        transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        [TopicPartition(OFFSETS_TOPIC, services.groups.partition_for(request.group_id))],
    )
    if error is ErrorCode.PRODUCER_FENCED and ctx.version < _OLDEST_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return m.AddOffsetsToTxnResponse(error_code=error)
