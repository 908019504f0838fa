"""Both sides of OAUTHBEARER (RFC 7628, OAuthBearerSaslServer and OAuthBearerSaslClient)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.security.sasl.exchange import Identity, SaslFailed, SaslRefused
from ottla.security.sasl.oauth.first_message import (
    BadFirstMessage,
    FirstMessage,
    parse_first_message,
)
from ottla.security.sasl.oauth.validation import TokenRefused, ValidToken

logger = logging.getLogger(__name__)

OAUTHBEARER = "OAUTHBEARER"
_CONTROL_A = b"\x01"
# What a client is told, and nothing more: why is in the broker's log.
_ERROR = '{"status":"invalid_token"}'


class OAuthExchange:
    """The server's side: one token; a bad one is answered, the client's \\x01 ends it."""

    def __init__(self, check: Callable[[str], ValidToken]) -> None:
        """`check` raises TokenRefused."""
        self.identity: Identity | None = None
        self.claimed_name = ""
        self._check = check
        self._was_refused = False

    def take(self, token: bytes) -> bytes:
        if self._was_refused:
            # Whatever comes now: the error was told.
            raise SaslRefused(_ERROR)
        try:
            first = parse_first_message(token)
        except BadFirstMessage as error:
            raise SaslFailed(str(error)) from None
        try:
            valid = self._check(first.token)
        except TokenRefused as error:
            logger.info("a token of OAUTHBEARER is refused: %s", error)
            self._was_refused = True
            return _ERROR.encode()
        self.claimed_name = valid.subject
        if first.authorization_id and first.authorization_id != valid.subject:
            raise SaslRefused(
                f"Authentication failed: Client requested an authorization id "
                f"({first.authorization_id}) that is different from the token's principal name "
                f"({valid.subject})"
            )
        self.identity = Identity(valid.subject, valid.expires_at_ms)
        return b""


class OAuthClientExchange:
    """The client's side with a token in hand."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        return FirstMessage(self._token).encode()

    def take(self, challenge: bytes) -> bytes | None:
        """An answer with text is an error; the server says it again after \\x01."""
        return _CONTROL_A if challenge else None
