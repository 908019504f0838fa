"""DescribeTransactions (65), version 0.

Behaviour: each transactional id as its coordinator has it (KIP-664); another broker answers
NOT_COORDINATOR, an id that nobody uses is TRANSACTIONAL_ID_NOT_FOUND. Topics that the caller may
not describe are left out.
Versions: one.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transactions.markers import by_topic
from ottla.coordinator.transactions.transaction import STATE_NAMES
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, allowed, refused_in_turns
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.DescribeTransactionsRequest
) -> m.DescribeTransactionsResponse:
    return m.DescribeTransactionsResponse(
        transaction_states=[
            await _describe(ctx, transactional_id)
            # One that is named twice is answered once (ADR 36).
            async for transactional_id in ctx.turns.each(dict.fromkeys(request.transactional_ids))
        ]
    )


async def _describe(
    ctx: RequestContext, transactional_id: str
) -> m.DescribeTransactionsResponse.TransactionState:
    response = m.DescribeTransactionsResponse
    answer = response.TransactionState(transactional_id=transactional_id)
    if not allowed(ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        answer.error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return answer
    found = ctx.services.transactions.describe(transactional_id)
    if isinstance(found, ErrorCode):
        answer.error_code = found
        return answer
    grouped = by_topic(found.partitions)
    hidden = await refused_in_turns(
        ctx, Operation.DESCRIBE, ResourceType.TOPIC, grouped, log_denied=False
    )
    answer.transaction_state = STATE_NAMES[found.state]
    answer.transaction_timeout_ms = found.timeout_ms
    answer.transaction_start_time_ms = found.start_ms
    answer.producer_id = found.producer_id
    answer.producer_epoch = found.producer_epoch
    answer.topics = [
        response.TopicData(topic=topic, partitions=partitions)
        for topic, partitions in grouped.items()
        if topic not in hidden
    ]
    return answer
