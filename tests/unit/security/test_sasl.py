"""The state machine of SASL: every request in every state, and the texts of PLAIN."""

from __future__ import annotations

import pytest

from ottla.errors import InvariantViolated
from ottla.security.sasl import (
    LEGAL_REQUESTS,
    PlainCredentials,
    SaslRefused,
    SaslServer,
    SaslSettings,
    SaslState,
    check_plain,
)

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
USERS = {"alice": "secret", "zoë": "pässword"}


@pytest.fixture
def server() -> SaslServer:
    return SaslServer(SaslSettings(("PLAIN",), USERS))


def test_every_state_says_what_it_takes() -> None:
    assert LEGAL_REQUESTS.keys() == set(SaslState)
    taken = {
        state: [key for key in (METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE) if key in keys]
        for state, keys in LEGAL_REQUESTS.items()
    }
    assert taken == {
        SaslState.INITIAL: [HANDSHAKE, API_VERSIONS],
        SaslState.VERSIONS_TOLD: [HANDSHAKE],
        SaslState.RAW_TOKENS: [],
        SaslState.TOKENS: [AUTHENTICATE],
        SaslState.COMPLETE: [],
        SaslState.FAILED: [],
    }


def test_the_way_in(server: SaslServer) -> None:
    server.versions_told()
    assert not server.accepts(API_VERSIONS)
    assert server.handshake("PLAIN", 1)
    assert server.principal is None
    assert server.take_token(PlainCredentials("alice", "secret").token) == b""
    assert (server.state, server.principal) == (SaslState.COMPLETE, "User:alice")


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
    assert (server.state, server.principal) == (SaslState.FAILED, None)


def test_steps_out_of_order(server: SaslServer) -> None:
    with pytest.raises(InvariantViolated):
        server.take_token(b"")
    server.handshake("PLAIN", 1)
    for step in (server.versions_told, lambda: server.handshake("PLAIN", 1)):
        with pytest.raises(InvariantViolated):
            step()


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_accepts(token: bytes) -> None:
    assert check_plain(token, USERS) == "alice"


def test_plain_is_utf_8() -> None:
    assert check_plain("\0zoë\0pässword".encode(), USERS) == "zoë"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0alice\0Secret", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"\0\xff\0x", "Invalid SASL/PLAIN response: not UTF-8"),
    ],
)
def test_plain_refuses(token: bytes, text: str) -> None:
    with pytest.raises(SaslRefused) as caught:
        check_plain(token, USERS)
    assert str(caught.value) == text


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(PlainCredentials("alice", "secret"))
