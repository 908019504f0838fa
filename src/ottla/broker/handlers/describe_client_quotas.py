"""DescribeClientQuotas (48), versions 0 to 1.

Behaviour: the quotas of users, client ids, pairs of them and addresses that match a filter, from
the store. A strict filter wants entities with exactly its components, another one any that have
them.
Versions: 1 is the flexible form of 0.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.stored import Component, check_filter, is_wanted, named, read_all
from ottla.security.rights import Operation, require_cluster
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.DescribeClientQuotasRequest
) -> m.DescribeClientQuotasResponse:
    require_cluster(ctx, Operation.DESCRIBE_CONFIGS)
    components = check_filter(
        Component(part.entity_type, part.match_type, part.match) for part in request.components
    )
    response = m.DescribeClientQuotasResponse
    entries = [
        response.EntryData(
            entity=[
                response.EntityData(entity_type=entity_type, entity_name=name)
                for entity_type, name in named(entity)
            ],
            values=[response.ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in (await read_all(ctx.services.store)).items()
        if is_wanted(entity, components, strict=request.strict)
    ]
    return response(error_code=0, error_message=None, entries=entries)
