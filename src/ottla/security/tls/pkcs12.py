"""PKCS12 files. The one part of TLS that Python's ssl cannot do: `cryptography` reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError
from ottla.security.tls.keys import KeyStore, TrustStore

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_MISSING = (
    "PKCS12 needs the package cryptography: pip install 'ottla[security]', or use PEM files "
    "(type=PEM)"
)


def load_keys(data: bytes, password: str) -> KeyStore:
    """The key and its certificates; raises ConfigError."""
    store = _load(data, password)
    if store.key is None or store.cert is None:
        raise ConfigError("it has no private key with a certificate")
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    others = (entry.certificate for entry in store.additional_certs)
    chain = [entry.public_bytes(Encoding.DER) for entry in (store.cert.certificate, *others)]
    return KeyStore(key, tuple(chain))


def load_certificates(data: bytes, password: str | None) -> TrustStore:
    """All certificates of a file, whoever's they are; raises ConfigError."""
    store = _load(data, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    entries = list(store.additional_certs)
    if store.cert is not None:
        entries.insert(0, store.cert)
    if not entries:
        raise ConfigError("it has no certificates (the trustAnchors parameter must be non-empty)")
    return tuple(entry.certificate.public_bytes(Encoding.DER) for entry in entries)


def _load(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(_MISSING) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise ConfigError("keystore password was incorrect") from None
        raise ConfigError(f"it cannot be read as PKCS12: {error}") from None
    except Exception as error:  # whatever the library's parser makes of a foreign file
        raise ConfigError(f"it cannot be read as PKCS12: {error}") from None
