"""Contexts of OpenSSL from settings and stores (DefaultSslEngineFactory.createSSLContext)."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.config.definitions import ConfigError
from ottla.security.tls.ciphers import TLS_1_3, openssl_name
from ottla.security.tls.keys import KeyStore, TrustStore
from ottla.security.tls.settings import PROTOCOLS, TlsSettings
from ottla.security.tls.stores import StoreLoader

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(
    settings: TlsSettings, keys: KeyStore, trusted: TrustStore | None
) -> ssl.SSLContext:
    """Raises ConfigError for keys and names that OpenSSL does not take."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client could otherwise have the expensive half of a handshake again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_protocols(context, settings)
    _load_keys(context, keys)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != "none":
        _trust(context, trusted, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(
    settings: TlsSettings, keys: KeyStore | None, trusted: TrustStore | None
) -> ssl.SSLContext:
    """Shows a certificate where there are `keys`; always asks for a trusted one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED
    _set_protocols(context, settings)
    if keys is not None:
        _load_keys(context, keys)
    _trust(context, trusted, ssl.Purpose.SERVER_AUTH)
    return context


def load_client_context(settings: TlsSettings, loader: StoreLoader) -> ssl.SSLContext:
    return client_context(
        settings, loader.key_store(settings.key_store), loader.trust_store(settings.trust_store)
    )


def _set_protocols(context: ssl.SSLContext, settings: TlsSettings) -> None:
    protocols = [name for name in PROTOCOLS if name in settings.protocols]
    suites = settings.cipher_suites
    if suites:
        protocols = _restricted_by_suites(context, protocols, suites)
    context.minimum_version = _VERSIONS[protocols[0]]
    context.maximum_version = _VERSIONS[protocols[-1]]


def _restricted_by_suites(
    context: ssl.SSLContext, protocols: list[str], suites: tuple[str, ...]
) -> list[str]:
    """A protocol without a suite is not spoken, as in Java."""
    modern = [suite for suite in suites if suite in TLS_1_3]
    older = [suite for suite in suites if suite not in TLS_1_3]
    if modern and len(set(modern)) < len(TLS_1_3):
        raise ConfigError(
            "ssl.cipher.suites: those of TLSv1.3 can be taken all together or not at all: "
            + ", ".join(TLS_1_3)
        )
    names = []
    for suite in older:
        name = openssl_name(suite)
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ConfigError(
                f"ssl.cipher.suites: Unsupported CipherSuite: {suite} ({ssl.OPENSSL_VERSION})"
            ) from None
        names.append(name)
    if names:
        context.set_ciphers(":".join(names))
    spoken = {"TLSv1.2": bool(names), "TLSv1.3": bool(modern)}
    left = [protocol for protocol in protocols if spoken[protocol]]
    if not left:
        raise ConfigError(
            "ssl.cipher.suites has no suite of ssl.enabled.protocols: " + ", ".join(protocols)
        )
    return left


def _load_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    chain = "".join(map(ssl.DER_cert_to_PEM_cert, keys.chain)).encode()
    try:
        with _private_file(keys.key + chain) as path:
            # Never None: OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=keys.key_password or "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error) or "wrong password"
        raise ConfigError(
            "the private key cannot be used (wrong ssl.key.password, or not the certificate's "
            f"key): {reason}"
        ) from None


def _trust(context: ssl.SSLContext, trusted: TrustStore | None, purpose: ssl.Purpose) -> None:
    if trusted is None:
        context.load_default_certs(purpose)
        return
    # Whatever is in a trust store of Java's is an anchor, not only what signed itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="".join(map(ssl.DER_cert_to_PEM_cert, trusted)))
    except ssl.SSLError as error:
        raise ConfigError(
            f"the trust store has a certificate that cannot be used: {error.reason}"
        ) from None


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Python's ssl takes keys from files only: one that is in memory, where the system has such."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="ottla-key-") as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name
