"""Keys and certificates out of PEM text and PKCS12 files, as bytes that OpenSSL takes."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.config.definitions import ConfigError
from ottla.security.tls.keys import KeyStore, TrustStore
from ottla.security.tls.names import BadCertificate, subject_name
from ottla.security.tls.settings import JKS, PEM, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Java's own format and its sibling JCEKS.
_JKS_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PKCS12_FIRST = b"\x30"
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,64})-----(.*?)-----END \1-----", re.DOTALL)
_PRIVATE_KEY = "PRIVATE KEY"
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
# A key store is a few KB; whatever is larger is something else.
MAX_STORE_BYTES = 16 * 1024 * 1024


class Files(Protocol):
    """As much of `runtime.Disk` as is needed here."""

    def read_bytes(self, path: Path) -> bytes: ...
    def size(self, path: Path) -> int: ...
    def mtime_ms(self, path: Path) -> int: ...


class StoreLoader:
    """Reads what settings name. `modified` knows the files' times since then."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._times: dict[Path, int | None] = {}

    def key_store(self, settings: StoreSettings) -> KeyStore | None:
        """None where there is none; raises ConfigError in Kafka's words and with the reason."""
        if settings.key is not None and settings.certificates is not None:
            return _pem_key_store(settings.key, settings.certificates, settings.key_password)
        if settings.location is None:
            return None
        data = self._read(settings)
        if settings.type == PEM:
            text = _text(data)
            with _Naming(f"Failed to load PEM SSL keystore {settings.location}"):
                return _pem_key_store(text, text, settings.key_password)
        with _Naming(f"Failed to load SSL keystore {settings.location} of type {settings.type}"):
            _check_pkcs12(data, settings, "ssl.keystore")
            from ottla.security.tls.pkcs12 import load_keys

            return load_keys(data, settings.password or "")

    def trust_store(self, settings: StoreSettings) -> TrustStore | None:
        """None where there is none: then the system's certificates are trusted."""
        if settings.certificates is not None:
            return _pem_certificates(settings.certificates)
        if settings.location is None:
            return None
        data = self._read(settings)
        if settings.type == PEM:
            with _Naming(f"Failed to load PEM SSL keystore {settings.location}"):
                return _pem_certificates(_text(data))
        with _Naming(f"Failed to load SSL keystore {settings.location} of type {settings.type}"):
            _check_pkcs12(data, settings, "ssl.truststore")
            from ottla.security.tls.pkcs12 import load_certificates

            return load_certificates(data, settings.password)

    def modified(self) -> bool:
        """Whether a file has changed since it was read."""
        return any(
            (now := self._time(path)) is not None and now != then
            for path, then in self._times.items()
        )

    def _read(self, settings: StoreSettings) -> bytes:
        path = Path(settings.location or "")
        what = f"Failed to load SSL keystore {path} of type {settings.type}"
        self._times[path] = self._time(path)
        if path.exists() and not path.is_file():
            # A pipe or a device would keep the broker waiting, or never end.
            raise ConfigError(f"{what}: it is not a regular file")
        try:
            if self._files.size(path) > MAX_STORE_BYTES:
                raise ConfigError(f"{what}: the file is larger than a key store can be")
            return self._files.read_bytes(path)
        except OSError as error:
            raise ConfigError(f"{what}: {error.strerror or error}") from None

    def _time(self, path: Path) -> int | None:
        try:
            return self._files.mtime_ms(path)
        except OSError:
            return None


class _Naming:
    """Puts the file's name before the reason."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, ConfigError):
            raise ConfigError(f"{self._what}: {error}") from None


def _check_pkcs12(data: bytes, settings: StoreSettings, name: str) -> None:
    if data.startswith(_JKS_MAGICS):
        path = settings.location
        raise ConfigError(
            "this is a JKS key store, which is not supported; PKCS12 and PEM are: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12 "
            f"makes one, then set {name}.location and {name}.type=PKCS12"
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise ConfigError(f"this is a PEM file: set {name}.type=PEM")
    if not data.startswith(_PKCS12_FIRST):
        kinds = "PKCS12" if settings.type == JKS else settings.type
        raise ConfigError(f"this is not a {kinds} file")


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    for match in _PEM_BLOCK.finditer(text):
        yield match[1], match[2]


def _pem_key_store(keys: str, certificates: str, password: str | None) -> KeyStore:
    found = [(label, body) for label, body in _blocks(keys) if label.endswith(_PRIVATE_KEY)]
    if not found:
        raise ConfigError("No matching PRIVATE KEY entries in PEM file")
    if len(found) != 1:
        raise ConfigError(f"Expected one private key, but found {len(found)}")
    label, body = found[0]
    is_encrypted = label.startswith("ENCRYPTED") or "ENCRYPTED" in body
    if is_encrypted and password is None:
        raise ConfigError("the private key is encrypted, but ssl.key.password is not specified")
    return KeyStore(
        key=_pem(label, body),
        chain=_pem_certificates(certificates),
        key_password=password if is_encrypted else None,
    )


def _pem(label: str, body: str) -> bytes:
    """With line feeds where a property had blanks; headers stay as they were."""
    if ":" not in body:
        letters = "".join(body.split())
        body = "\n".join(letters[start : start + 64] for start in range(0, len(letters), 64))
    return f"-----BEGIN {label}-----\n{body.strip()}\n-----END {label}-----\n".encode("latin-1")


def _pem_certificates(text: str) -> tuple[bytes, ...]:
    bodies = [body for label, body in _blocks(text) if label in _CERTIFICATES]
    if not bodies:
        raise ConfigError("No matching CERTIFICATE entries in PEM file")
    try:
        certificates = tuple(base64.b64decode("".join(body.split())) for body in bodies)
        for certificate in certificates:
            subject_name(certificate)
    except (binascii.Error, ValueError, BadCertificate) as error:
        raise ConfigError(f"Invalid PEM keystore configs: {error}") from None
    return certificates
