"""The server's side of SASL on one connection, as a state machine without I/O.

`SaslServer` follows Kafka's SaslServerAuthenticator: which request is legal next, what a handshake
and a token are answered with, and who is there in the end.
`broker/requests/authentication.py` puts it on the wire. One mechanism is there: PLAIN (RFC 4616,
PlainSaslServer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ottla.errors import InvariantViolated, OttlaError

PLAIN = "PLAIN"
MECHANISMS = (PLAIN,)


class PlainCredentials(NamedTuple):
    """A user of SASL PLAIN and the password it shows."""

    username: str
    password: str

    @property
    def token(self) -> bytes:
        """What a client sends: no authorisation id, the user, the password."""
        return f"\0{self.username}\0{self.password}".encode()

    def __repr__(self) -> str:
        return f"PlainCredentials({self.username!r}, ...)"


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Of one listener: the mechanisms clients may use and the accounts of PLAIN."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, str]


class SaslRefused(OttlaError):
    """The peer is not who it says, or does not keep to the protocol; the text may go to it."""


class SaslState(Enum):
    INITIAL = auto()  # nothing came yet, or an ApiVersions that failed
    VERSIONS_TOLD = auto()  # ApiVersions was answered
    RAW_TOKENS = auto()  # after SaslHandshake v0: tokens in frames of their own
    TOKENS = auto()  # after SaslHandshake v1: tokens in SaslAuthenticate
    COMPLETE = auto()
    FAILED = auto()


_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 18, 17, 36

# The requests that each state takes; anything else ends the connection.
LEGAL_REQUESTS: dict[SaslState, frozenset[int]] = {
    SaslState.INITIAL: frozenset((_API_VERSIONS, _SASL_HANDSHAKE)),
    SaslState.VERSIONS_TOLD: frozenset((_SASL_HANDSHAKE,)),
    SaslState.RAW_TOKENS: frozenset(),
    SaslState.TOKENS: frozenset((_SASL_AUTHENTICATE,)),
    SaslState.COMPLETE: frozenset(),
    SaslState.FAILED: frozenset(),
}


class SaslServer:
    """One connection's way from unknown to authenticated."""

    def __init__(self, settings: SaslSettings) -> None:
        self._settings = settings
        self.state = SaslState.INITIAL
        # `User:name` once the state is COMPLETE.
        self.principal: str | None = None

    @property
    def mechanisms(self) -> Sequence[str]:
        return self._settings.mechanisms

    def accepts(self, api_key: int) -> bool:
        return api_key in LEGAL_REQUESTS[self.state]

    def versions_told(self) -> None:
        self._expect(SaslState.INITIAL)
        self.state = SaslState.VERSIONS_TOLD

    def handshake(self, mechanism: str, version: int) -> bool:
        """Whether the mechanism is enabled; the other answer ends the connection."""
        self._expect(SaslState.INITIAL, SaslState.VERSIONS_TOLD)
        if mechanism not in self._settings.mechanisms:
            self.state = SaslState.FAILED
            return False
        self.state = SaslState.RAW_TOKENS if version == 0 else SaslState.TOKENS
        return True

    def take_token(self, token: bytes) -> bytes:
        """The mechanism's answer; raises SaslRefused. PLAIN is over after one token."""
        self._expect(SaslState.RAW_TOKENS, SaslState.TOKENS)
        try:
            username = check_plain(token, self._settings.plain_users)
        except SaslRefused:
            self.state = SaslState.FAILED
            raise
        self.principal = f"User:{username}"
        self.state = SaslState.COMPLETE
        return b""

    def _expect(self, *states: SaslState) -> None:
        if self.state not in states:
            raise InvariantViolated(f"not a step of SASL in state {self.state.name}")


def check_plain(token: bytes, users: Mapping[str, str]) -> str:
    """The user that a PLAIN token is good for; raises SaslRefused with Kafka's texts."""
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
    return username
