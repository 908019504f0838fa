"""ListTransactions (66), versions 0 to 1.

Behaviour: the transactional ids that this broker coordinates, by state and producer id (KIP-664);
COORDINATOR_LOAD_IN_PROGRESS while any of its partitions is being read. State names that do not
exist come back as such, and where no other was asked for nothing is listed. Ids that the caller may
not describe are left out.
Versions: 1 lists by duration too: ids whose transaction began longer ago (KIP-994).
Left out: nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.coordinator.transactions.transaction import STATE_NAMES, State, Transaction
from ottla.errors import ErrorCode
from ottla.security.rights import Operation, ResourceType, refused_in_turns
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

_STATES = {name: state for state, name in STATE_NAMES.items()}


async def handle(
    ctx: RequestContext, request: m.ListTransactionsRequest
) -> m.ListTransactionsResponse:
    response = m.ListTransactionsResponse
    everything = ctx.services.transactions.list_all()
    if isinstance(everything, ErrorCode):
        return response(error_code=everything)
    now_ms = ctx.services.runtime.clock.now_ms()
    producers, states = frozenset(request.producer_id_filters), frozenset(request.state_filters)
    listed = [
        each
        async for each in ctx.turns.each(everything)
        if _is_wanted(each, producers, states)
        and (request.duration_filter < 0 or now_ms - each.start_ms > request.duration_filter)
    ]
    hidden = await refused_in_turns(
        ctx,
        Operation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        (each.transactional_id for each in listed),
        log_denied=False,
    )
    return response(
        unknown_state_filters=[
            name for name in dict.fromkeys(request.state_filters) if name not in _STATES
        ],
        transaction_states=[
            response.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=STATE_NAMES[each.state],
            )
            async for each in ctx.turns.each(listed)
            if each.transactional_id not in hidden
        ],
    )


def _is_wanted(
    transaction: Transaction, producers: Collection[int], states: Collection[str]
) -> bool:
    if transaction.state is State.DEAD:
        return False
    if producers and transaction.producer_id not in producers:
        return False
    return not states or STATE_NAMES[transaction.state] in states
