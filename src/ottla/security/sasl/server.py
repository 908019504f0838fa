"""The server's side of SASL on one connection, as a state machine without I/O.

`SaslServer` follows Kafka's SaslServerAuthenticator: which request is legal next, what a handshake
and a token are answered with, and who is there in the end, for the first authentication of a
connection and for every further one (KIP-368). `broker/requests/authentication.py` puts it on the
wire; the mechanisms are in `mechanisms.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import InvariantViolated
from ottla.security.sasl.exchange import SaslFailed, SaslRefused

if TYPE_CHECKING:
    from ottla.security.sasl.exchange import Exchange, Identity


class SaslState(Enum):
    INITIAL = auto()  # nothing came yet, or an ApiVersions that failed
    VERSIONS_TOLD = auto()  # ApiVersions was answered
    AGAIN = auto()  # a connection that is through begins to authenticate again
    RAW_TOKENS = auto()  # after SaslHandshake v0: tokens in frames of their own
    TOKENS = auto()  # after SaslHandshake v1: tokens in SaslAuthenticate
    OTHER_MECHANISM = auto()  # a second authentication began with another mechanism
    COMPLETE = auto()
    FAILED = auto()


_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 18, 17, 36

# The requests that each state takes; anything else ends the connection.
LEGAL_REQUESTS: dict[SaslState, frozenset[int]] = {
    SaslState.INITIAL: frozenset((_API_VERSIONS, _SASL_HANDSHAKE)),
    SaslState.VERSIONS_TOLD: frozenset((_SASL_HANDSHAKE,)),
    SaslState.AGAIN: frozenset((_SASL_HANDSHAKE,)),
    SaslState.RAW_TOKENS: frozenset(),
    SaslState.TOKENS: frozenset((_SASL_AUTHENTICATE,)),
    SaslState.OTHER_MECHANISM: frozenset(),
    SaslState.COMPLETE: frozenset(),
    SaslState.FAILED: frozenset(),
}


class Authenticated(NamedTuple):
    """How a connection got through."""

    mechanism: str
    identity: Identity


class SaslServer:
    """One connection's way from unknown to authenticated, or from authenticated to that again."""

    def __init__(
        self,
        mechanisms: Sequence[str],
        new_exchange: Callable[[str], Exchange],
        before: Authenticated | None = None,
    ) -> None:
        """`before` is how the connection got through the last time."""
        self.mechanisms = mechanisms
        self._new_exchange = new_exchange
        self._before = before
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self.state = SaslState.INITIAL if before is None else SaslState.AGAIN
        # Set once the state is COMPLETE.
        self.authenticated: Authenticated | None = None

    @property
    def claimed_name(self) -> str:
        """Whom the peer claims to be; "" while it has not said."""
        return "" if self._exchange is None else self._exchange.claimed_name

    def accepts(self, api_key: int) -> bool:
        return api_key in LEGAL_REQUESTS[self.state]

    def versions_told(self) -> None:
        self._expect(SaslState.INITIAL)
        self.state = SaslState.VERSIONS_TOLD

    def handshake(self, mechanism: str, version: int) -> bool:
        """Whether the mechanism is enabled; the other answer ends the connection."""
        self._expect(SaslState.INITIAL, SaslState.VERSIONS_TOLD, SaslState.AGAIN)
        self._mechanism = mechanism
        if mechanism not in self.mechanisms:
            self.state = SaslState.FAILED
            return False
        if self._before is not None and self._before.mechanism != mechanism:
            # Kafka answers as if all were well, and closes when the token comes.
            self.state = SaslState.OTHER_MECHANISM
            return True
        self._exchange = self._new_exchange(mechanism)
        self.state = SaslState.RAW_TOKENS if version == 0 else SaslState.TOKENS
        return True

    def refuse_other_mechanism(self) -> str:
        """Why the frame after the handshake cannot be taken."""
        self._expect(SaslState.OTHER_MECHANISM)
        self.state = SaslState.FAILED
        before = "" if self._before is None else self._before.mechanism
        return (
            f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{before}'"
        )

    def take_token(self, token: bytes) -> bytes:
        """The mechanism's answer; raises SaslRefused. The state says whether it was the last."""
        self._expect(SaslState.RAW_TOKENS, SaslState.TOKENS)
        exchange = self._exchange
        if exchange is None:
            raise InvariantViolated("tokens are taken after a handshake only")
        try:
            answer = exchange.take(token)
            if exchange.identity is not None:
                self._complete(exchange.identity)
        except SaslFailed as error:
            self.state = SaslState.FAILED
            # Not what the mechanism says: it may tell who exists.
            what = "authentication" if self._before is None else "re-authentication"
            raise SaslRefused(
                f"Authentication failed during {what} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            ) from error
        except SaslRefused:
            self.state = SaslState.FAILED
            raise
        return answer

    def _complete(self, identity: Identity) -> None:
        before = self._before
        if before is not None and before.identity.name != identity.name:
            raise SaslRefused(
                "Cannot change principals during re-authentication from "
                f"User.{before.identity.name}: User.{identity.name}"
            )
        self.authenticated = Authenticated(self._mechanism, identity)
        self.state = SaslState.COMPLETE

    def _expect(self, *states: SaslState) -> None:
        if self.state not in states:
            raise InvariantViolated(f"not a step of SASL in state {self.state.name}")


def session_lifetime_ms(max_reauth_ms: int, expires_at_ms: int | None, now_ms: int) -> int:
    """How long the connection may go on without authenticating again, 0 for ever.

    As ReauthInfo computes it: without connections.max.reauth.ms nothing ends, not even with a
    credential that does; one that has ended by now sets no limit either.
    """
    if expires_at_ms is None:
        return max(0, max_reauth_ms)
    return max(0, min(expires_at_ms - now_ms, max_reauth_ms))
