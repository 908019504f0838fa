"""What a key store and a trust store hold, as bytes that OpenSSL takes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and the certificates that go with it, the own one first (DER)."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]
    # None where the key is not encrypted.
    key_password: str | None = field(default=None, repr=False)


TrustStore = tuple[bytes, ...]
