"""CreateDelegationToken (38), versions 0 to 2 (KIP-48).

Behaviour: a token for the user who asks, on any broker, with the users who may renew it beside the
owner. Its life is the shorter of what was asked for and delegation.token.max.lifetime.ms.
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for somebody unknown and for users who came by a token;
INVALID_PRINCIPAL_TYPE for a renewer that is not a user; DELEGATION_TOKEN_AUTH_DISABLED without
delegation.token.secret.key.
Versions: 2 is flexible.
Rights: none.
Left out: version 3, a token for another user (KIP-373), which Kafka 2.8 does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.token_requests import (
    NO_TIME,
    USER,
    require_known_user,
    split_principal,
    tokens_of,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.CreateDelegationTokenRequest
) -> m.CreateDelegationTokenResponse:
    kind, name = split_principal(ctx.principal)
    response = m.CreateDelegationTokenResponse(
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    try:
        require_known_user(ctx)
        if any(renewer.principal_type != USER for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        tokens = tokens_of(ctx)
        token = await tokens.create(
            ctx.principal,
            [f"{USER}:{renewer.principal_name}" for renewer in request.renewers],
            request.max_lifetime_ms,
        )
    except KafkaError as error:
        response.error_code = error.code
        return response
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.token_id
    response.hmac = tokens.secret_of(token.token_id)
    return response
