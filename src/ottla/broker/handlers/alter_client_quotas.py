"""AlterClientQuotas (49), versions 0 to 1.

Behaviour: sets and removes quotas of users, client ids, pairs of them and addresses, each entry by
itself; any broker does it, all hear of it through a note under /config/changes.
Versions: 1 is the flexible form of 0.
Left out: rates of connections for host names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.bounds.batches import check_changes
from ottla.broker.quotas.stored import KEYS, change, entity_of, value_text
from ottla.errors import ErrorCode, KafkaError
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.AlterClientQuotasRequest
) -> m.AlterClientQuotasResponse:
    require_cluster(ctx, Operation.ALTER_CONFIGS)
    check_changes(len(request.entries))
    response = m.AlterClientQuotasResponse
    entries = []
    async for entry in ctx.turns.each(request.entries):
        answered = response.EntryData(
            error_code=ErrorCode.NONE,
            error_message=None,
            entity=[
                response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ],
        )
        try:
            await _alter(ctx, entry, validate_only=request.validate_only)
        except KafkaError as error:
            answered.error_code, answered.error_message = error.code, error.message
        entries.append(answered)
    return response(entries=entries)


async def _alter(
    ctx: RequestContext, entry: m.AlterClientQuotasRequest.EntryData, *, validate_only: bool
) -> None:
    entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
    edits: dict[str, str | None] = {}
    for op in entry.ops:
        if not op.remove:
            edits[op.key] = value_text(entity, op.key, op.value)
        elif op.key in KEYS:  # what else a user has is not removed as a quota
            edits[op.key] = None
    await change(ctx.services.store, entity, edits, validate_only=validate_only)
