"""SaslAuthenticate (36), versions 0 to 2.

Behaviour: on a connection that is authenticated, or needs no authentication, the answer is
ILLEGAL_SASL_STATE. Before that `broker/requests/authentication.py` answers.
Versions: 1 tells how long the session lasts (KIP-368), 0 without end; 2 is flexible.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(
    ctx: RequestContext, request: m.SaslAuthenticateRequest
) -> m.SaslAuthenticateResponse:
    return m.SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
