"""SCRAM: the RFC's own example, both of our sides against each other, and what a stranger sends."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.sasl import scram
from ottla.security.sasl.exchange import Identity, SaslFailed, SaslRefused
from ottla.security.sasl.scram import (
    SCRAM_HASHES,
    ScramCredential,
    TokenCredential,
    credential_from_text,
    credential_of,
    credential_to_text,
)
from ottla.security.sasl.scram_client import ScramClientExchange, ScramCredentials
from ottla.security.sasl.scram_server import ScramExchange

SHA_256 = scram.SCRAM_SHA_256


class Users:
    """One credential for every name that is there, tokens by their id."""

    def __init__(
        self,
        users: Mapping[str, ScramCredential],
        tokens: Mapping[str, TokenCredential] | None = None,
    ) -> None:
        self._users, self._tokens = users, tokens or {}

    def find(self, mechanism: str, name: str) -> ScramCredential | None:
        return self._users.get(name)

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        return self._tokens.get(token_id)


def credential(mechanism: str, password: str, iterations: int = 4096) -> ScramCredential:
    salted = scram.salted_password(mechanism, password, b"salt", iterations)
    return credential_of(mechanism, b"salt", salted, iterations)


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = scram.salted_password(SHA_256, "pencil", salt, 4096)
    users = Users({"user": credential_of(SHA_256, salt, salted, 4096)})
    server = ScramExchange(SHA_256, users, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClientExchange(
        ScramCredentials(SHA_256, "user", "pencil"), "rOprNGfwEbeRWgbNEkqO"
    )
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.take(client.first())
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = client.take(challenge)
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    final = server.take(proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.take(final) is None
    assert server.identity == Identity("user")


def _log_in(
    mechanism: str, users: Users, name: str, password: str, *, by_token: bool = False
) -> ScramExchange:
    server = ScramExchange(mechanism, users, "server")
    client = ScramClientExchange(ScramCredentials(mechanism, name, password, by_token), "client")
    token: bytes | None = client.first()
    while token is not None:
        token = client.take(server.take(token))
    return server


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "CN=x,O=y"])
def test_both_sides(mechanism: str, name: str) -> None:
    users = Users({name: credential(mechanism, "pässword")})
    assert _log_in(mechanism, users, name, "pässword").identity == Identity(name)
    for wrong in ("password", "", "pässword "):
        with pytest.raises(SaslFailed, match="Invalid client credentials"):
            _log_in(mechanism, users, name, wrong)


def test_who_does_not_exist() -> None:
    server = ScramExchange(SHA_256, Users({}), "server")
    with pytest.raises(SaslFailed, match="Invalid user credentials"):
        server.take(b"n,,n=eve,r=abc")
    assert (server.claimed_name, server.identity) == ("eve", None)


def test_a_delegation_token() -> None:
    token = TokenCredential(credential(SHA_256, "aG1hYw=="), "alice", 1234)
    users = Users({"alice": credential(SHA_256, "p")}, {"token-id": token})
    server = _log_in(SHA_256, users, "token-id", "aG1hYw==", by_token=True)
    assert server.identity == Identity("alice", 1234, by_token=True)
    # A token's id is not a user, and a user's name is not a token.
    with pytest.raises(SaslFailed):
        _log_in(SHA_256, users, "token-id", "aG1hYw==")
    with pytest.raises(SaslFailed, match="Invalid tokenId"):
        _log_in(SHA_256, users, "alice", "p", by_token=True)


def test_another_authorization_id() -> None:
    users = Users({"alice": credential(SHA_256, "p")})
    with pytest.raises(SaslRefused, match="authorization id that is different from username"):
        ScramExchange(SHA_256, users, "s").take(b"n,a=bob,n=alice,r=c")
    ScramExchange(SHA_256, users, "s").take(b"n,a=alice,n=alice,r=c")


def test_too_few_rounds() -> None:
    """Written to the znode by hand."""
    users = Users({"alice": credential(SHA_256, "p", 4095)})
    with pytest.raises(SaslFailed, match="less than the minimum 4096"):
        ScramExchange(SHA_256, users, "s").take(b"n,,n=alice,r=c")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=alice,r=c",
        b"p=tls-unique,,n=alice,r=c",
        b"n,,n=alice",
        b"n,,n=,r=c",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=c",
        b"n,,n=alice,r=c\n",
        b"n,,n=alice,r=c,",
        b"n,,n=\xff,r=c",
        "n,,n=zoë,r=c".encode(),
        b"n,,n=alice,r=" + b"c" * 20_000,
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    users = Users({"alice": credential(SHA_256, "p")})
    with pytest.raises(SaslFailed, match="Invalid SCRAM client first message format"):
        ScramExchange(SHA_256, users, "s").take(first)


@pytest.mark.parametrize(
    ("final", "text"),
    [
        (b"", "Invalid SCRAM client final message format"),
        (b"c=biws,r=cs", "Invalid SCRAM client final message format"),
        (b"c=biws,r=cs,p=*", "Invalid SCRAM client final message format"),
        (b"c=biws,r=cs,p=", "Invalid client credentials"),
        (b"c=biws,r=cs,p=AAAA", "Invalid client credentials"),
        (b"c=biws,r=other,p=AAAA", "Invalid nonce"),
    ],
)
def test_final_messages_that_prove_nothing(final: bytes, text: str) -> None:
    server = ScramExchange(SHA_256, Users({"alice": credential(SHA_256, "p")}), "s")
    server.take(b"n,,n=alice,r=c")
    with pytest.raises(SaslFailed, match=text):
        server.take(final)
    assert server.identity is None


def test_a_proof_is_good_once() -> None:
    """What was overheard opens nothing: the server's nonce is another."""
    users = Users({"alice": credential(SHA_256, "p")})
    client = ScramClientExchange(ScramCredentials(SHA_256, "alice", "p"), "c")
    first = client.first()
    server = ScramExchange(SHA_256, users, "s1")
    proof = client.take(server.take(first))
    assert proof is not None
    server.take(proof)
    again = ScramExchange(SHA_256, users, "s2")
    again.take(first)
    with pytest.raises(SaslFailed):
        again.take(proof)


@pytest.mark.parametrize(
    ("challenge", "text"),
    [
        (b"r=x,s=c2FsdA==,i=4096", "does not start with client nonce"),
        (b"r=cs,s=c2FsdA==,i=4095", "less than the minimum"),
        (b"r=cs,s=c2FsdA==,i=1000001", "more than 1000000"),
        (b"r=cs,s=c2FsdA==,i=99999999999", "Invalid SCRAM server first message format"),
        (b"e=other-error", "Invalid SCRAM server first message format"),
        (b"", "Invalid SCRAM server first message format"),
    ],
)
def test_servers_that_are_none(challenge: bytes, text: str) -> None:
    client = ScramClientExchange(ScramCredentials(SHA_256, "alice", "p"), "c")
    client.first()
    with pytest.raises(SaslRefused, match=text):
        client.take(challenge)


@pytest.mark.parametrize(
    ("final", "text"),
    [
        (b"v=AAAA", "Invalid server signature"),
        (b"v=", "Invalid server signature"),
        (b"e=invalid-proof", "failed with error: invalid-proof"),
        (b"x", "Invalid SCRAM server final message format"),
    ],
)
def test_a_server_that_does_not_know_the_user(final: bytes, text: str) -> None:
    server = ScramExchange(SHA_256, Users({"alice": credential(SHA_256, "p")}), "s")
    client = ScramClientExchange(ScramCredentials(SHA_256, "alice", "p"), "c")
    client.take(server.take(client.first()))
    with pytest.raises(SaslRefused, match=text):
        client.take(final)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4), st.booleans())
def test_any_bytes(tokens: list[bytes], begin_well: bool) -> None:
    server = ScramExchange(SHA_256, Users({"alice": _KNOWN}), "s")
    try:
        if begin_well:
            server.take(b"n,,n=alice,r=c")
        for token in tokens:
            server.take(token)
    except (SaslFailed, SaslRefused):
        pass
    assert server.identity is None


_KNOWN = credential(SHA_256, "p")


def test_the_text_in_a_znode() -> None:
    known = ScramCredential(b"salt", b"stored", b"server", 8192)
    text = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=8192"
    assert credential_to_text(known) == text
    assert credential_from_text(text) == known
    assert "stored" not in repr(known)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "salt=c2FsdA==",
        "salt=c2FsdA==,stored_key=*,server_key=c2VydmVy,iterations=8192",
        "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=x",
        "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=8192,more=1",
    ],
)
def test_texts_that_are_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match="a SCRAM credential has"):
        credential_from_text(text)


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(ScramCredentials(SHA_256, "alice", "secret"))
