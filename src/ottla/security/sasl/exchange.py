"""What every SASL mechanism offers: an exchange of tokens on either side.

The server's side (`Exchange`) ends with an `Identity`; the client's (`ClientExchange`) ends when
it has nothing left to say. Neither does I/O, reads a clock or draws a random number.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ottla.errors import OttlaError


class Identity(NamedTuple):
    """Who is there in the end."""

    # The principal is User:<name>.
    name: str
    # Wall-clock time at which the credential itself ends; None for one that does not.
    expires_at_ms: int | None = None
    # Shown by a delegation token, which cannot be used to make another.
    by_token: bool = False

    @property
    def principal(self) -> str:
        return f"User:{self.name}"


class SaslRefused(OttlaError):
    """The peer is not who it says, or does not keep to the protocol; the text may go to it."""


class SaslFailed(OttlaError):
    """As SaslRefused, but the text is for this side's log only: it would tell a stranger who
    exists (Kafka's SaslException beside SaslAuthenticationException)."""


class Exchange(Protocol):
    """The server's side of one authentication."""

    # Set when the exchange is complete.
    identity: Identity | None
    # The name that the peer claims, as soon as it is known; for counting failures, never trusted.
    claimed_name: str

    def take(self, token: bytes) -> bytes:
        """The answer to a token of the client; raises SaslRefused or SaslFailed."""


class ClientExchange(Protocol):
    """The client's side of one authentication."""

    def first(self) -> bytes:
        """What the client says first."""

    def take(self, challenge: bytes) -> bytes | None:
        """The answer to what the server said, None where nothing is left to say; raises
        SaslRefused where the server does not prove what it must."""


class Credentials(Protocol):
    """What a client shows: an immutable value that can be compared, hashed and pickled, and whose
    `repr` holds no secret."""

    @property
    def mechanism(self) -> str: ...

    async def new_exchange(self, nonce: str) -> ClientExchange:
        """`nonce` is printable ASCII without a comma that was never used before. May do I/O where
        the secret has to be fetched; raises SaslRefused where it cannot be had."""
