"""Delegation tokens in the store: Kafka's bytes, and bytes that are none."""

from __future__ import annotations

import pytest

from ottla.metadata.token_znodes import DelegationToken, TokenChangeZnode, TokenZnode
from ottla.metadata.znode_values import BadZnodeError

TOKEN = DelegationToken("abc", "User:a b", ("User:c*~", "User:d"), 10, 30, 20)
BYTES = (
    b'{"version":1,"owner":"User%3Aa%20b","renewers":["User%3Ac%2A%7E","User%3Ad"],'
    b'"issueTimestamp":10,"maxTimestamp":30,"expiryTimestamp":20,"tokenId":"abc"}'
)


def test_there_and_back() -> None:
    assert TokenZnode.path("abc") == "/delegation_token/tokens/abc"
    assert TokenZnode.encode(TOKEN) == BYTES
    assert TokenZnode.decode("abc", BYTES) == TOKEN


@pytest.mark.parametrize(
    ("was", "becomes", "text"),
    [
        (b"{", b"", "is not JSON"),
        (b'"version":1', b'"version":2', "not the token of its name in version 1"),
        (b'"abc"', b'"abd"', "not the token of its name"),
        (b'["User%3Ac%2A%7E","User%3Ad"]', b"7", "no list of renewers"),
        (b'"User%3Aa%20b"', b'"nobody"', "'nobody' is not a principal"),
        (b'"User%3Ad"', b"null", "None is not a principal"),
        (b":20", b":true", "expiryTimestamp is True and not a time"),
    ],
)
def test_what_is_no_token(was: bytes, becomes: bytes, text: str) -> None:
    assert was in BYTES
    with pytest.raises(BadZnodeError, match=text):
        TokenZnode.decode("abc", BYTES.replace(was, becomes))


def test_whose_it_is_and_for_how_long() -> None:
    assert TOKEN.belongs_to("User:a b") and TOKEN.belongs_to("User:d")
    assert not TOKEN.belongs_to("User:e")
    assert not TOKEN.is_over(20)
    assert TOKEN.is_over(21)
    assert TOKEN._replace(expiry_ms=99).is_over(31), "the longest life counts, too"


@pytest.mark.parametrize("data", [None, b"", b"a/b", b"\xff"])
def test_notes(data: bytes | None) -> None:
    assert TokenChangeZnode.decode(TokenChangeZnode.encode("abc")) == "abc"
    with pytest.raises(BadZnodeError, match="is not the id of a token"):
        TokenChangeZnode.decode(data)
