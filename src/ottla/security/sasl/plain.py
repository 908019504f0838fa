"""SASL PLAIN (RFC 4616) as Kafka has it (PlainSaslServer): the password crosses the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.security.sasl.exchange import Identity, SaslRefused

PLAIN = "PLAIN"


class PlainCredentials(NamedTuple):
    """A user of SASL PLAIN and the password it shows."""

    username: str
    password: str

    @property
    def mechanism(self) -> str:
        return PLAIN

    @property
    def token(self) -> bytes:
        """What a client sends: no authorisation id, the user, the password."""
        return f"\0{self.username}\0{self.password}".encode()

    async def new_exchange(self, nonce: str) -> PlainClientExchange:
        return PlainClientExchange(self.token)

    def __repr__(self) -> str:
        return f"PlainCredentials({self.username!r}, ...)"


class PlainClientExchange:
    """One token, and nothing to check in the answer."""

    def __init__(self, token: bytes) -> None:
        self._token = token

    def first(self) -> bytes:
        return self._token

    def take(self, challenge: bytes) -> bytes | None:
        return None


class PlainExchange:
    """Over after one token."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.identity: Identity | None = None
        self.claimed_name = ""

    def take(self, token: bytes) -> bytes:
        authorization_id, self.claimed_name, password = parse_plain(token)
        check_plain(authorization_id, self.claimed_name, password, self._users)
        self.identity = Identity(self.claimed_name)
        return b""


def parse_plain(token: bytes) -> tuple[str, str, str]:
    """Authorisation id, user and password; raises SaslRefused with Kafka's texts."""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslRefused("Invalid SASL/PLAIN response: not UTF-8") from None
    if len(parts) != 3:
        raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    authorization_id, username, password = parts
    if not username:
        raise SaslRefused("Authentication failed: username not specified")
    if not password:
        raise SaslRefused("Authentication failed: password not specified")
    return authorization_id, username, password


def check_plain(
    authorization_id: str, username: str, password: str, users: Mapping[str, str]
) -> None:
    """Raises SaslRefused with Kafka's texts where these are not those of an account."""
    import hmac  # brokers without SASL start without it

    expected = users.get(username)
    # An unknown user costs a comparison too: the time says nothing of who exists.
    matches = hmac.compare_digest(password.encode(), (expected or "").encode())
    if expected is None or not matches:
        raise SaslRefused("Authentication failed: Invalid username or password")
    if authorization_id and authorization_id != username:
        raise SaslRefused(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )
