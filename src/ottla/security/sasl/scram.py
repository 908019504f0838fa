"""What both sides of SCRAM compute (RFC 5802, RFC 7677; ScramFormatter), and stored credentials.

A password is stored as PBKDF2 makes it, with at least 4096 rounds: whoever reads the znode can
neither log in with what it holds nor find the password cheaply. The rounds are the client's work.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple, Protocol

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
SCRAM_HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MIN_ITERATIONS = 4096
# The most that AlterUserScramCredentials takes (KIP-554).
MAX_ITERATIONS = 16384
_KEYS = ("salt", "stored_key", "server_key", "iterations")


class ScramCredential(NamedTuple):
    """What a broker keeps of a password (ScramCredential)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, ...)"


class TokenCredential(NamedTuple):
    """A delegation token that a client may show in place of a password."""

    credential: ScramCredential
    owner: str
    expires_at_ms: int


class ScramUsers(Protocol):
    """Where the server's side looks up users and delegation tokens."""

    def find(self, mechanism: str, name: str) -> ScramCredential | None:
        """The credential of a user."""

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """A delegation token; its HMAC in base64 is the password."""


def digest(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(SCRAM_HASHES[mechanism], data).digest()


def mac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, SCRAM_HASHES[mechanism])


def xor(one: bytes, other: bytes) -> bytes:
    """Of equal length."""
    both = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return both.to_bytes(len(one), "big")


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The costly part. Kafka does not normalise passwords (no SASLprep), so neither do we."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    return mac(mechanism, salted, b"Client Key")


def server_key(mechanism: str, salted: bytes) -> bytes:
    return mac(mechanism, salted, b"Server Key")


def credential_of(mechanism: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """What is stored of a salted password: three hashes, whatever `iterations` says."""
    stored = digest(mechanism, client_key(mechanism, salted))
    return ScramCredential(salt, stored, server_key(mechanism, salted), iterations)


def new_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """What is stored of a password. Costs all its rounds."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


def credential_to_text(credential: ScramCredential) -> str:
    """As a znode holds it (ScramCredentialUtils)."""
    salt, stored, server = (
        base64.b64encode(part).decode()
        for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def credential_from_text(text: str) -> ScramCredential:
    """Raises ValueError, which does not repeat the text."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if tuple(sorted(parts)) != tuple(sorted(_KEYS)):
        raise ValueError(f"a SCRAM credential has the parts {', '.join(_KEYS)}")
    try:
        salt, stored, server = (base64.b64decode(parts[key], validate=True) for key in _KEYS[:3])
    except binascii.Error:
        raise ValueError("a SCRAM credential has a part that is not base64") from None
    if not parts["iterations"].isdecimal():
        raise ValueError("a SCRAM credential has iterations that are not a number")
    return ScramCredential(salt, stored, server, int(parts["iterations"]))


def to_sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def from_sasl_name(sasl_name: str) -> str:
    """Of a name whose every `=` begins `=2C` or `=3D`."""
    return sasl_name.replace("=2C", ",").replace("=3D", "=")
