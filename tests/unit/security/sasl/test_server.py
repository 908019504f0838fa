"""The state machine of SASL: every request in every state."""

from __future__ import annotations

import pytest

from ottla.errors import InvariantViolated
from ottla.security.sasl.exchange import Identity, SaslRefused
from ottla.security.sasl.plain import PlainCredentials, PlainExchange
from ottla.security.sasl.server import (
    LEGAL_REQUESTS,
    Authenticated,
    SaslServer,
    SaslState,
    session_lifetime_ms,
)

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
USERS = {"alice": "secret", "bob": "other"}

THROUGH = Authenticated("PLAIN", Identity("alice"))


@pytest.fixture
def server() -> SaslServer:
    return SaslServer(("PLAIN",), lambda _: PlainExchange(USERS))


def test_every_state_says_what_it_takes() -> None:
    assert LEGAL_REQUESTS.keys() == set(SaslState)
    taken = {
        state: [key for key in (METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE) if key in keys]
        for state, keys in LEGAL_REQUESTS.items()
    }
    assert taken == {
        SaslState.INITIAL: [HANDSHAKE, API_VERSIONS],
        SaslState.VERSIONS_TOLD: [HANDSHAKE],
        SaslState.AGAIN: [HANDSHAKE],
        SaslState.RAW_TOKENS: [],
        SaslState.TOKENS: [AUTHENTICATE],
        SaslState.OTHER_MECHANISM: [],
        SaslState.COMPLETE: [],
        SaslState.FAILED: [],
    }


def test_the_way_in(server: SaslServer) -> None:
    server.versions_told()
    assert not server.accepts(API_VERSIONS)
    assert server.handshake("PLAIN", 1)
    assert server.authenticated is None
    assert server.take_token(PlainCredentials("alice", "secret").token) == b""
    assert (server.state, server.authenticated) == (SaslState.COMPLETE, THROUGH)


def test_old_handshake_means_raw_tokens(server: SaslServer) -> None:
    assert server.handshake("PLAIN", 0)
    assert server.state is SaslState.RAW_TOKENS


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", ""])
def test_other_mechanisms(server: SaslServer, mechanism: str) -> None:
    assert not server.handshake(mechanism, 1)
    assert server.state is SaslState.FAILED
    with pytest.raises(InvariantViolated):
        server.take_token(b"")


def test_a_wrong_token_is_the_end(server: SaslServer) -> None:
    server.handshake("PLAIN", 1)
    with pytest.raises(SaslRefused):
        server.take_token(b"\0alice\0wrong")
    assert (server.state, server.authenticated) == (SaslState.FAILED, None)


def test_steps_out_of_order(server: SaslServer) -> None:
    with pytest.raises(InvariantViolated):
        server.take_token(b"")
    server.handshake("PLAIN", 1)
    for step in (server.versions_told, lambda: server.handshake("PLAIN", 1)):
        with pytest.raises(InvariantViolated):
            step()


def _again() -> SaslServer:
    return SaslServer(("PLAIN", "OTHER"), lambda _: PlainExchange(USERS), THROUGH)


def test_the_same_user_again() -> None:
    server = _again()
    assert not server.accepts(API_VERSIONS)
    assert server.handshake("PLAIN", 1)
    assert server.take_token(b"\0alice\0secret") == b""
    assert server.authenticated == THROUGH


def test_another_user_in_the_place_of_the_first() -> None:
    server = _again()
    server.handshake("PLAIN", 1)
    with pytest.raises(SaslRefused) as caught:
        server.take_token(b"\0bob\0other")
    assert str(caught.value) == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert (server.state, server.authenticated) == (SaslState.FAILED, None)
    assert server.claimed_name == "bob"


def test_another_mechanism_in_the_place_of_the_first() -> None:
    server = _again()
    assert server.handshake("OTHER", 1)
    assert server.state is SaslState.OTHER_MECHANISM
    assert server.refuse_other_mechanism() == (
        "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of "
        "mechanism 'PLAIN'"
    )
    assert server.state is SaslState.FAILED


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (500, None, 500),
        (500, 1300, 300),
        (500, 9000, 500),
        # Without connections.max.reauth.ms nothing ends, and what is over by now sets no limit.
        (0, 1300, 0),
        (500, 900, 0),
    ],
)
def test_lifetimes(max_reauth_ms: int, expires_at_ms: int | None, lifetime_ms: int) -> None:
    assert session_lifetime_ms(max_reauth_ms, expires_at_ms, 1000) == lifetime_ms
