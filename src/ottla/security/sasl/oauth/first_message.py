"""The first message of an OAUTHBEARER client (RFC 7628, OAuthBearerClientInitialResponse)."""

from __future__ import annotations

import re
from typing import NamedTuple

_SEPARATOR = "\x01"
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)


class BadFirstMessage(ValueError):
    """Not what a client may begin with."""


class FirstMessage(NamedTuple):
    token: str
    # Whom the client wants to be; empty where it leaves that to the token.
    authorization_id: str = ""

    def encode(self) -> bytes:
        who = f"a={self.authorization_id}" if self.authorization_id else ""
        text = f"n,{who},{_SEPARATOR}auth=Bearer {self.token}{_SEPARATOR}{_SEPARATOR}"
        return text.encode()


def parse_first_message(data: bytes) -> FirstMessage:
    """Raises BadFirstMessage in Kafka's words."""
    match = _MESSAGE.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise BadFirstMessage("Invalid OAUTHBEARER client first message")
    pairs = match["pairs"].rstrip(_SEPARATOR).split(_SEPARATOR) if match["pairs"] else []
    properties = dict(pair.split("=", 1) for pair in pairs)
    auth = properties.get("auth")
    if auth is None:
        raise BadFirstMessage("Invalid OAUTHBEARER client first message: 'auth' not specified")
    found = _AUTH.fullmatch(auth)
    if found is None:
        raise BadFirstMessage("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if found["scheme"].lower() != "bearer":
        raise BadFirstMessage(
            f"Invalid scheme in OAUTHBEARER client first message: {found['scheme']}"
        )
    return FirstMessage(found["token"], match["authorization_id"] or "")
