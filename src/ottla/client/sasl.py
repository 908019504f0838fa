"""The client's side of SASL PLAIN in Kafka's frames (KIP-152)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl import PLAIN
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.security.sasl import PlainCredentials
    from ottla.wire.codec import Message


class Requests(Protocol):
    """A connection that is open."""

    async def send(self, message: Message, version: int, *, timeout_ms: float) -> Any: ...


async def authenticate(
    connection: Requests, credentials: PlainCredentials, timeout_ms: float
) -> None:
    """Handshake v1, then one exchange; raises KafkaError where the broker refuses the user."""
    answer = await connection.send(
        m.SaslHandshakeRequest(mechanism=PLAIN), 1, timeout_ms=timeout_ms
    )
    if answer.error_code:
        raise KafkaError(
            _known(answer.error_code),
            f"Client SASL mechanism '{PLAIN}' not enabled in the server, enabled mechanisms are "
            f"[{', '.join(answer.mechanisms)}]",
        )
    answer = await connection.send(
        m.SaslAuthenticateRequest(auth_bytes=credentials.token), 0, timeout_ms=timeout_ms
    )
    if answer.error_code:
        raise KafkaError(_known(answer.error_code), answer.error_message)


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
