"""RenewDelegationToken (39), versions 0 to 2 (KIP-48).

Behaviour: a token lives on, for the period or delegation.token.expiry.time.ms where it is
negative, never beyond its longest life; the answer is the time of its end.
DELEGATION_TOKEN_NOT_FOUND for a secret that no token has, DELEGATION_TOKEN_OWNER_MISMATCH for
whoever neither owns nor may renew it, DELEGATION_TOKEN_EXPIRED for one that is over.
Versions: 2 is flexible.
Rights: none.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context.token_requests import new_end
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.RenewDelegationTokenRequest
) -> m.RenewDelegationTokenResponse:
    code, expiry_ms = await new_end(
        ctx,
        lambda tokens: tokens.renew(ctx.principal, bytes(request.hmac), request.renew_period_ms),
    )
    return m.RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)
