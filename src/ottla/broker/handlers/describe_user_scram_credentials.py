"""DescribeUserScramCredentials (50), version 0 (KIP-554).

Behaviour: which SCRAM mechanisms users have credentials for and with how many iterations, from the
store; nothing of the credentials themselves. No users, or null, means all that have one.
Versions: only 0.
Left out: nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.metadata.entity_configs import desanitize, read_entity, user_names, user_path
from ottla.security.rights import Operation, require_cluster
from ottla.security.scram_alterations import EMPTY_NAME, described
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.metadata.store import MetadataStore

Result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


async def handle(
    ctx: RequestContext, request: m.DescribeUserScramCredentialsRequest
) -> m.DescribeUserScramCredentialsResponse:
    require_cluster(ctx, Operation.DESCRIBE)
    store = ctx.services.store
    if request.users:
        times = Counter(user.name for user in request.users)
        results = [
            await _asked_for(store, name, count)
            async for name, count in ctx.turns.each(times.items())
        ]
    else:
        names = sorted(desanitize(name) for name in await user_names(store))
        found = [await _result(store, name) async for name in ctx.turns.each(names)]
        results = [result for result in found if result is not None]
    return m.DescribeUserScramCredentialsResponse(error_message="", results=results)


async def _asked_for(store: MetadataStore, name: str, times: int) -> Result:
    if not name:
        return _error(name, ErrorCode.RESOURCE_NOT_FOUND, EMPTY_NAME)
    if times > 1:
        return _error(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{name}",
        )
    result = await _result(store, name)
    if result is None:
        return _error(
            name,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    return result


async def _result(store: MetadataStore, name: str) -> Result | None:
    """None for a user without credentials."""
    try:
        infos = described(await read_entity(store, user_path(name)))
    except ValueError:
        unforeseen = ErrorCode.UNKNOWN_SERVER_ERROR
        return _error(name, unforeseen, unforeseen.text)
    if not infos:
        return None
    info_class = m.DescribeUserScramCredentialsResponse.CredentialInfo
    return Result(
        user=name,
        error_message="",
        credential_infos=[
            info_class(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in infos
        ],
    )


def _error(name: str, code: ErrorCode, text: str) -> Result:
    return Result(user=name, error_code=code, error_message=text)
