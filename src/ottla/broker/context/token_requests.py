"""What the four requests about delegation tokens ask first (KafkaApis.allowTokenRequests)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.context.request import RequestContext
    from ottla.security.delegation_tokens import DelegationTokens

USER = "User"
# Where there is no time to tell.
NO_TIME = -1
_ANONYMOUS = "User:ANONYMOUS"


def require_known_user(ctx: RequestContext) -> None:
    """A token is for a user who has shown who it is, and not by a token."""
    protocol = ctx.services.config.security_protocol_map.get(ctx.listener, "PLAINTEXT")
    if (
        ctx.by_token
        or protocol == "PLAINTEXT"
        or (protocol == "SSL" and ctx.principal == _ANONYMOUS)
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def tokens_of(ctx: RequestContext) -> DelegationTokens:
    """Raises KafkaError where the brokers have no key for tokens."""
    tokens = ctx.services.delegation_tokens
    if tokens is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens


async def new_end(
    ctx: RequestContext, change: Callable[[DelegationTokens], Awaitable[int]]
) -> tuple[ErrorCode, int]:
    """The time of a token's end after a change, or why it was not made."""
    try:
        require_known_user(ctx)
        return ErrorCode.NONE, await change(tokens_of(ctx))
    except KafkaError as error:
        return error.code, NO_TIME


def split_principal(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
