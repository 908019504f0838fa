"""TLS with the metadata store: `zookeeper.ssl.*` of a broker (ZKClientConfig), and the `ssl.*`
lines of a store's own properties (ClientX509Util), which ZooKeeper spells differently."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError
from ottla.security.tls.contexts import load_client_context, server_context
from ottla.security.tls.names import subject_name
from ottla.security.tls.network import TlsNetwork
from ottla.security.tls.settings import JKS, PEM, PKCS12, TlsSettings
from ottla.security.tls.stores import Files, StoreLoader
from ottla.zk.server.acl import Identity

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Runtime

# KeyStoreFileType.fromFilename
_TYPES = {".pem": PEM, ".p12": PKCS12, ".jks": JKS}
_CLIENT_AUTH = {"none": "none", "want": "requested", "need": "required"}
_SERVER_NAMES = {
    "ssl.keyStore.location": "ssl.keystore.location",
    "ssl.keyStore.password": "ssl.keystore.password",
    "ssl.keyStore.type": "ssl.keystore.type",
    "ssl.trustStore.location": "ssl.truststore.location",
    "ssl.trustStore.password": "ssl.truststore.password",
    "ssl.trustStore.type": "ssl.truststore.type",
    "ssl.enabledProtocols": "ssl.enabled.protocols",
    "ssl.ciphersuites": "ssl.cipher.suites",
    "ssl.clientAuth": "ssl.client.auth",
}
_CLIENT_PREFIX = "zookeeper.ssl."
_CLIENT_NAMES = (
    "keystore.location", "keystore.password", "keystore.type", "truststore.location",
    "truststore.password", "truststore.type", "enabled.protocols", "cipher.suites",
    "endpoint.identification.algorithm",
)  # fmt: skip
# Also in a file for tools.
_OF_TOOLS = ("zookeeper.ssl.client.enable", "zookeeper.clientCnxnSocket", "zookeeper.ssl.protocol")


def broker_context(config: BrokerConfig, files: Files) -> ssl.SSLContext | None:
    """How a broker connects to its store; None for in the clear. Raises ConfigError."""
    if not config.boolean("zookeeper.ssl.client.enable"):
        return None
    return _client_context(config.static, config.text("zookeeper.ssl.protocol"), files)


def tool_runtime(runtime: Runtime, properties: Mapping[str, str]) -> Runtime:
    """For commands that work on the store, from a file as Kafka's --zk-tls-config-file takes it;
    raises ConfigError."""
    known = {*(_CLIENT_PREFIX + name for name in _CLIENT_NAMES), *_OF_TOOLS}
    unknown = [name for name in properties if name not in known]
    if unknown:
        raise ConfigError(f"Unknown configuration {unknown[0]}; known: {', '.join(sorted(known))}")
    if properties.get("zookeeper.ssl.client.enable", "true").lower() != "true":
        return runtime
    protocol = properties.get("zookeeper.ssl.protocol", "TLSv1.2")
    context = _client_context(properties, protocol, runtime.disk)
    return replace(runtime, network=TlsNetwork(runtime.network, lambda: context))


def _client_context(given: Mapping[str, str], protocol: str, files: Files) -> ssl.SSLContext:
    named = {
        f"ssl.{name}": given[_CLIENT_PREFIX + name]
        for name in _CLIENT_NAMES
        if _CLIENT_PREFIX + name in given
    }
    named.setdefault("ssl.enabled.protocols", protocol)
    try:
        return load_client_context(
            TlsSettings.from_properties(_with_types(named)), StoreLoader(files)
        )
    except ConfigError as error:
        raise ConfigError(f"zookeeper.ssl.*: {error}") from None


class StoreTls:
    """The secure port of a store; raises ConfigError."""

    def __init__(self, properties: Mapping[str, str], files: Files) -> None:
        unknown = [name for name in properties if name not in _SERVER_NAMES]
        if unknown:
            raise ConfigError(
                f"Unknown configuration {unknown[0]}; known: {', '.join(_SERVER_NAMES)}"
            )
        given = {_SERVER_NAMES[name]: text for name, text in properties.items()}
        auth = given.get("ssl.client.auth", "need").lower()
        if auth not in _CLIENT_AUTH:
            raise ConfigError(f"ssl.clientAuth={auth} is not one of {', '.join(_CLIENT_AUTH)}")
        given["ssl.client.auth"] = _CLIENT_AUTH[auth]
        settings, loader = TlsSettings.from_properties(_with_types(given)), StoreLoader(files)
        keys = loader.key_store(settings.key_store)
        if keys is None:
            raise ConfigError("a secure port needs a certificate: set ssl.keyStore.location")
        self._context = server_context(settings, keys, loader.trust_store(settings.trust_store))

    @property
    def server_context(self) -> ssl.SSLContext:
        return self._context

    def peer_known(self, inner: asyncio.BaseProtocol, certificate: bytes | None) -> None:
        """A certificate is an identity for ACLs (X509AuthenticationProvider)."""
        if certificate is not None:
            # A connection of the store.
            inner.identities += (Identity("x509", subject_name(certificate)),)  # type: ignore[attr-defined]


def _with_types(given: Mapping[str, str]) -> dict[str, str]:
    """Types by the file's name where they are not said. PEM has no password but its key's."""
    typed = dict(given)
    for store in ("keystore", "truststore"):
        location = typed.get(f"ssl.{store}.location")
        if location is None:
            continue
        kind = typed.get(f"ssl.{store}.type") or _TYPES.get(Path(location).suffix.lower())
        if kind is None:
            raise ConfigError(
                f"{location}: the type of the store is not in its name (.pem, .p12); set it"
            )
        typed[f"ssl.{store}.type"] = kind.upper()
        if kind.upper() == PEM:
            password = typed.pop(f"ssl.{store}.password", None)
            if password and store == "keystore":
                typed["ssl.key.password"] = password
    return typed
