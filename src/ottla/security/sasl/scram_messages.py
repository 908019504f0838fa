"""The four messages of SCRAM as text (RFC 5802, section 7; Kafka's ScramMessages).

No channel binding: the header is `n,`. Extensions are read from the client's first message only;
`tokenauth=true` is the one that means something to Kafka.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.security.sasl.exchange import SaslFailed

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"(n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),"
    rf"i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
# Names, nonces and proofs are short; what is longer need not be searched.
MAX_MESSAGE_BYTES = 16 * 1024


class ClientFirst(NamedTuple):
    sasl_name: str
    # "" where the client asks for none; as it was sent, escapes and all.
    authorization_id: str
    nonce: str
    extensions: Mapping[str, str]
    # The part that is signed, as it was sent.
    bare: str


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    channel_binding: bytes
    nonce: str
    proof: bytes
    # The part that is signed, as it was sent.
    without_proof: str


class ServerFinal(NamedTuple):
    error: str | None
    signature: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    found = _match(_CLIENT_FIRST, message, "client first")
    extensions = dict(part.split("=", 1) for part in found["extensions"].split(",") if part)
    return ClientFirst(
        found["name"], found["authorization"] or "", found["nonce"], extensions, found["bare"]
    )


def parse_server_first(message: bytes) -> ServerFirst:
    found = _match(_SERVER_FIRST, message, "server first")
    return ServerFirst(found["nonce"], base64.b64decode(found["salt"]), int(found["iterations"]))


def parse_client_final(message: bytes) -> ClientFinal:
    found = _match(_CLIENT_FINAL, message, "client final")
    channel, proof = (base64.b64decode(found[part]) for part in ("channel", "proof"))
    return ClientFinal(channel, found["nonce"], proof, found["without_proof"])


def parse_server_final(message: bytes) -> ServerFinal:
    found = _match(_SERVER_FINAL, message, "server final")
    return ServerFinal(found["error"], base64.b64decode(found["signature"] or ""))


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={base64.b64encode(salt).decode()},i={iterations}"


def _match(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    """Raises SaslFailed without the message's text: it may hold what nobody should log."""
    if len(message) <= MAX_MESSAGE_BYTES:
        found = pattern.fullmatch(message.decode("utf-8", "replace"))
        if found is not None:
            return found
    raise SaslFailed(f"Invalid SCRAM {what} message format")
