"""AlterUserScramCredentials (51), version 0 (KIP-554).

Behaviour: the controller sets and removes SCRAM credentials of users, each user by itself; all
brokers hear of it through notes under /config/changes. Passwords come salted, so that storing one
costs three hashes. Elsewhere NOT_CONTROLLER.
Versions: only 0.
Left out: nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.bounds.batches import check_changes
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.entity_configs import change_entity, user_path
from ottla.metadata.store import StoreError
from ottla.security.rights import Operation, require_cluster
from ottla.security.scram_alterations import Deletion, Upsertion, altered, refused_users
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.metadata.store import MetadataStore

logger = logging.getLogger(__name__)


async def handle(
    ctx: RequestContext, request: m.AlterUserScramCredentialsRequest
) -> m.AlterUserScramCredentialsResponse:
    if not ctx.services.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    require_cluster(ctx, Operation.ALTER)
    check_changes(len(request.upsertions) + len(request.deletions))
    upsertions = [
        Upsertion(item.name, item.mechanism, item.iterations, item.salt, item.salted_password)
        for item in request.upsertions
    ]
    deletions = [Deletion(item.name, item.mechanism) for item in request.deletions]
    errors: dict[str, KafkaError | None] = {**refused_users(upsertions, deletions)}
    by_user: defaultdict[str, tuple[list[Upsertion], list[Deletion]]]
    by_user = defaultdict(lambda: ([], []))
    for deletion in deletions:
        by_user[deletion.name][1].append(deletion)
    for upsertion in upsertions:
        by_user[upsertion.name][0].append(upsertion)
    async for name, (own_upsertions, own_deletions) in ctx.turns.each(by_user.items()):
        if name not in errors:
            errors[name] = await _change(ctx.services.store, name, own_upsertions, own_deletions)
    result_class = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    return m.AlterUserScramCredentialsResponse(
        results=[
            result_class(
                user=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message="" if error is None else str(error),
            )
            for name, error in errors.items()
        ]
    )


async def _change(
    store: MetadataStore, name: str, upsertions: list[Upsertion], deletions: list[Deletion]
) -> KafkaError | None:
    try:
        await change_entity(
            store, user_path(name), lambda configs: altered(configs, upsertions, deletions)
        )
    except KafkaError as error:
        return error
    except StoreError as error:
        logger.warning("SCRAM credentials of user %r could not be stored: %r", name, error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None
