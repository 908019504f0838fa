"""SaslHandshake (17), versions 0 to 1.

Behaviour: on a connection that is authenticated, or needs no authentication, the answer is
ILLEGAL_SASL_STATE without mechanisms. Before that, and where a session has an end and the last
authentication is a second ago (KIP-368), `broker/requests/authentication.py` answers.
Versions: after 0 tokens follow in frames of their own, after 1 in SaslAuthenticate.
Left out: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext


async def handle(ctx: RequestContext, request: m.SaslHandshakeRequest) -> m.SaslHandshakeResponse:
    return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
