"""DescribeDelegationToken (41), versions 0 to 2 (KIP-48).

Behaviour: tokens with their secrets: those that the asker owns or may renew, and any others that
it has the right for; of the `owners` that are named, or of all where the list is null.
Versions: 2 is flexible.
Rights: DESCRIBE on a delegation token of somebody else.
Left out: version 3 (KIP-373), which Kafka 2.8 does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.token_requests import require_known_user, split_principal, tokens_of
from ottla.errors import KafkaError
from ottla.security.rights import Operation, ResourceType, allowed
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext
    from ottla.metadata.token_znodes import DelegationToken
    from ottla.security.delegation_tokens import DelegationTokens


async def handle(
    ctx: RequestContext, request: m.DescribeDelegationTokenRequest
) -> m.DescribeDelegationTokenResponse:
    try:
        require_known_user(ctx)
        tokens = tokens_of(ctx)
    except KafkaError as error:
        return m.DescribeDelegationTokenResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}

    def may_see(token: DelegationToken) -> bool:
        return token.belongs_to(ctx.principal) or allowed(
            ctx, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id
        )

    found = tokens.matching(owners, may_see)
    return m.DescribeDelegationTokenResponse(tokens=[_described(tokens, token) for token in found])


def _described(
    tokens: DelegationTokens, token: DelegationToken
) -> m.DescribeDelegationTokenResponse.DescribedDelegationToken:
    renewer_class = m.DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
    kind, name = split_principal(token.owner)
    return m.DescribeDelegationTokenResponse.DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.secret_of(token.token_id),
        renewers=[
            renewer_class(principal_type=kind, principal_name=name)
            for kind, name in map(split_principal, token.renewers)
        ],
    )
