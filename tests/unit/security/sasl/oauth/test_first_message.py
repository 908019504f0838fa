"""What an OAUTHBEARER client may begin with."""

from __future__ import annotations

import pytest

from ottla.security.sasl.oauth.first_message import (
    BadFirstMessage,
    FirstMessage,
    parse_first_message,
)


@pytest.mark.parametrize(
    "message", [FirstMessage("a.b-c._d"), FirstMessage("a.b.c", authorization_id="alice")]
)
def test_there_and_back(message: FirstMessage) -> None:
    assert parse_first_message(message.encode()) == message


def test_what_other_clients_send() -> None:
    # librdkafka with extensions, and a scheme in another case.
    data = b"n,,\x01auth=bearer  tok\x01logicalCluster=lkc-1\x01\x01"
    assert parse_first_message(data) == FirstMessage("tok")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "Invalid OAUTHBEARER client first message$"),
        (b"y,,\x01auth=Bearer t\x01\x01", "Invalid OAUTHBEARER client first message$"),
        (b"n,,\x01auth=Bearer t\x01", "Invalid OAUTHBEARER client first message$"),
        (b"n,a=,\x01auth=Bearer t\x01\x01", "Invalid OAUTHBEARER client first message$"),
        (b"n,,\x01\x01", "'auth' not specified"),
        (b"n,,\x01other=1\x01\x01", "'auth' not specified"),
        (b"n,,\x01auth=Bearer\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer t\xc3\xa4\x01\x01", "Invalid OAUTHBEARER client first message$"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Basic t\x01\x01", "Invalid scheme .*: Basic"),
        (b"\xff" * 100_000, "Invalid OAUTHBEARER client first message$"),
        (b"n,," + b"\x01a=b" * 50_000, "Invalid OAUTHBEARER client first message$"),
    ],
)
def test_anything_else(data: bytes, text: str) -> None:
    with pytest.raises(BadFirstMessage, match=text):
        parse_first_message(data)
