"""SASL PLAIN: who is let in, and the texts that the others get."""

from __future__ import annotations

import pytest

from ottla.security.sasl.exchange import Identity, SaslRefused
from ottla.security.sasl.plain import PlainCredentials, PlainExchange

USERS = {"alice": "secret", "zoë": "pässword"}


def check(token: bytes) -> Identity | None:
    exchange = PlainExchange(USERS)
    assert exchange.take(token) == b""
    return exchange.identity


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_accepts(token: bytes) -> None:
    assert check(token) == Identity("alice")


def test_plain_is_utf_8() -> None:
    assert check("\0zoë\0pässword".encode()) == Identity("zoë")


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
        check(token)
    assert str(caught.value) == text


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(PlainCredentials("alice", "secret"))
