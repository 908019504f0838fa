"""The client's side of SASL in Kafka's frames (KIP-152), for any mechanism."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.exchange import SaslRefused
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.security.sasl.exchange import Credentials
    from ottla.wire.codec import Message

    Send = Callable[[Message, int], Awaitable[Any]]

# The first that tells how long the session lasts (KIP-368, Kafka 2.2).
AUTHENTICATE_VERSION = 1
_NONCE_BYTES = 24
# No mechanism needs more; a server that goes on asking is not one.
_MAX_TOKENS = 10


async def authenticate(
    send: Send, credentials: Credentials, version: int = AUTHENTICATE_VERSION
) -> int:
    """Handshake v1, then the mechanism's tokens in SaslAuthenticate of that version.

    Returns the lifetime of the session in milliseconds, 0 where it has no end. Raises KafkaError
    where either side refuses the other.
    """
    mechanism = credentials.mechanism
    answer = await send(m.SaslHandshakeRequest(mechanism=mechanism), 1)
    if answer.error_code:
        enabled = ", ".join(answer.mechanisms)
        raise KafkaError(
            _known(answer.error_code),
            f"Client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms "
            f"are [{enabled}]"
            if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            else None,
        )
    try:
        # Not from the runtime: it decides nothing that a simulation would have to repeat.
        exchange = await credentials.new_exchange(secrets.token_urlsafe(_NONCE_BYTES))
        token: bytes | None = exchange.first()
        for _ in range(_MAX_TOKENS):
            if token is None:
                break
            answer = await send(m.SaslAuthenticateRequest(auth_bytes=token), version)
            if answer.error_code:
                raise KafkaError(_known(answer.error_code), answer.error_message)
            token = exchange.take(answer.auth_bytes)
    except SaslRefused as error:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from error
    if token is not None:
        raise KafkaError(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"the server asked for more than {_MAX_TOKENS} tokens of {mechanism}",
        )
    lifetime_ms: int = answer.session_lifetime_ms
    return lifetime_ms


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
