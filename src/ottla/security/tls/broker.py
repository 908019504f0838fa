"""TLS of one broker: its listeners, their certificates, and the change of both while it runs
(SslFactory, DynamicBrokerConfig.DynamicListenerConfig)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from ottla.config.catalog import all_definitions
from ottla.config.definitions import ConfigError
from ottla.security.tls.contexts import client_context, server_context
from ottla.security.tls.keys import KeyStore
from ottla.security.tls.names import alternative_names, subject_name
from ottla.security.tls.network import TlsNetwork
from ottla.security.tls.principals import PrincipalMapper
from ottla.security.tls.settings import RECONFIGURABLE, TlsSettings
from ottla.security.tls.stores import Files, StoreLoader

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Network

logger = logging.getLogger(__name__)

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
_ALIAS = "kafka"  # what Kafka calls the one entry of a PEM store


class ListenerTls:
    """The stores of one listener as they were read, and the contexts made of them."""

    def __init__(
        self, listener: str, properties: Mapping[str, str], protocol: str, files: Files
    ) -> None:
        """Raises ConfigError."""
        self.listener = listener
        self.properties = dict(properties)
        self.settings = TlsSettings.from_properties(properties)
        self._protocol = protocol
        self._loader = StoreLoader(files)
        self.keys = self._loader.key_store(self.settings.key_store)
        self.trusted = self._loader.trust_store(self.settings.trust_store)
        self._mapper = PrincipalMapper(self.settings.principal_rules)
        if self.keys is None:
            raise ConfigError(
                f"Listener {listener} needs a certificate: set ssl.keystore.location, "
                "ssl.keystore.type=PEM or PKCS12 and its password"
            )
        self.server_context = server_context(self.settings, self.keys, self.trusted)
        self.client_context = client_context(self.settings, self.keys, self.trusted)

    @property
    def is_outdated(self) -> bool:
        """A file was written since it was read."""
        return self._loader.modified()

    def principal(self, certificate: bytes | None) -> str | None:
        """Who shows this certificate; None where it says nothing. Raises OttlaError."""
        if self._protocol != "SSL" or certificate is None:
            return None
        return self._mapper.principal(subject_name(certificate))


class Endpoint:
    """What the connections of one listener use: the present `ListenerTls`."""

    def __init__(self, tls: ListenerTls) -> None:
        self.tls = tls

    @property
    def server_context(self) -> ssl.SSLContext:
        return self.tls.server_context

    def peer_known(self, inner: asyncio.BaseProtocol, certificate: bytes | None) -> None:
        principal = self.tls.principal(certificate)
        if principal is not None:
            # A connection of the broker: `ClientConnection`.
            inner.principal = principal  # type: ignore[attr-defined]


class BrokerTls:
    """All listeners with TLS. Made before the first socket is opened; raises ConfigError."""

    def __init__(self, config: BrokerConfig, files: Files) -> None:
        self._files = files
        self._config = config
        self._between_brokers = config.inter_broker_listener
        self._endpoints = {
            name: Endpoint(self._load(config, name, listener_properties(config, name)))
            for name, protocol in (
                (one.listener, one.security_protocol) for one in config.listeners
            )
            if protocol in TLS_PROTOCOLS
        }
        inter_broker = self._endpoints.get(self._between_brokers)
        if inter_broker is not None:
            _check_trusts_itself(inter_broker.tls, inter_broker.tls)

    def endpoint(self, listener: str) -> Endpoint:
        return self._endpoints[listener]

    def network(self, network: Network, listener: str) -> Network:
        """For connections to other brokers on one of their listeners."""
        endpoint = self._endpoints.get(listener)
        if endpoint is None:
            return network
        return TlsNetwork(network, lambda: endpoint.tls.client_context)

    # changes while the broker runs

    def check_change(self, proposed: BrokerConfig) -> None:
        """Raises ConfigError, with Kafka's reason, where the certificates of a changed config
        cannot take the place of those in use."""
        for endpoint in self._endpoints.values():
            if _properties_after(endpoint.tls, proposed) != endpoint.tls.properties:
                self._replacement(endpoint.tls, proposed)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Takes over changed configs; certificates that do not fit leave the old ones in use."""
        self._config = config
        for endpoint in self._endpoints.values():
            if _properties_after(endpoint.tls, config) != endpoint.tls.properties:
                self._replace(endpoint)

    def reload_files(self) -> None:
        """Reads key stores and trust stores again that were written since. Kafka does this
        whenever configs of the broker are altered, the same value included."""
        for endpoint in self._endpoints.values():
            if endpoint.tls.is_outdated:
                self._replace(endpoint)

    def _replace(self, endpoint: Endpoint) -> None:
        try:
            endpoint.tls = self._replacement(endpoint.tls, self._config)
        except ConfigError as error:
            logger.error("the TLS settings of listener %s stay: %s", endpoint.tls.listener, error)
        else:
            logger.info("listener %s uses new certificates", endpoint.tls.listener)

    def _replacement(self, old: ListenerTls, config: BrokerConfig) -> ListenerTls:
        try:
            new = self._load(config, old.listener, _properties_after(old, config))
            _check_same_names(cast("KeyStore", old.keys), cast("KeyStore", new.keys))
            if old.trusted is None and new.trusted is not None:
                raise ConfigError(
                    "Cannot add SSL truststore to an existing listener for which no truststore "
                    "was configured."
                )
            if old.listener == self._between_brokers:
                _check_trusts_itself(old, new)
        except ConfigError as error:
            raise ConfigError(
                "Validation of dynamic config update of SSLFactory failed: "
                f"org.apache.kafka.common.config.ConfigException: {error}"
            ) from None
        return new

    def _load(
        self, config: BrokerConfig, listener: str, properties: Mapping[str, str]
    ) -> ListenerTls:
        protocol = config.security_protocol_map[listener]
        return ListenerTls(listener, properties, protocol, self._files)


def listener_properties(config: BrokerConfig, listener: str) -> dict[str, str]:
    """The `ssl.*` values that hold for one listener: its own over the broker's, and at each level
    the store's over the file's."""
    prefix = f"listener.name.{listener.lower()}."
    levels = (config.dynamic_broker, config.dynamic_default, config.static)
    given: dict[str, str] = {}
    for name in (name for name in all_definitions() if name.startswith("ssl.")):
        for key in (prefix + name, name):
            text = next((level[key] for level in levels if key in level), None)
            if text is not None:
                given[name] = text
                break
    is_sasl = config.security_protocol_map.get(listener) == "SASL_SSL"
    if is_sasl and not any(prefix + "ssl.client.auth" in level for level in levels):
        # ChannelBuilders: the bare config is for SSL listeners alone (KIP-684).
        given["ssl.client.auth"] = "none"
    return given


def _properties_after(old: ListenerTls, config: BrokerConfig) -> dict[str, str]:
    """What a running listener takes over: stores. The rest waits for a start, as in Kafka."""
    now = listener_properties(config, old.listener)
    kept = {name: text for name, text in old.properties.items() if name not in RECONFIGURABLE}
    return kept | {name: text for name, text in now.items() if name in RECONFIGURABLE}


def _check_same_names(old: KeyStore, new: KeyStore) -> None:
    """SslFactory.CertificateEntries.ensureCompatible: clients know this broker by these names."""
    old_name, new_name = subject_name(old.chain[0]), subject_name(new.chain[0])
    if old_name != new_name:
        raise ConfigError(
            "Keystore DistinguishedName does not match:  "
            f"existing={{alias={_ALIAS}, DN={old_name}}}, new={{alias={_ALIAS}, DN={new_name}}}"
        )
    had, has = alternative_names(old.chain[0]), alternative_names(new.chain[0])
    if not had <= has:
        shown_old, shown_new = (", ".join(sorted(map(str, names))) for names in (had, has))
        raise ConfigError(
            "Keystore SubjectAltNames do not match:  "
            f"existing={{alias={_ALIAS}, SAN=[{shown_old}]}}, "
            f"new={{alias={_ALIAS}, SAN=[{shown_new}]}}"
        )


def _check_trusts_itself(old: ListenerTls, new: ListenerTls) -> None:
    """Brokers talk to each other with these (SslFactory.SslEngineValidator)."""
    try:
        _shake_hands(old, new)
        _shake_hands(new, old)
    except ssl.SSLError as error:
        words = getattr(error, "verify_message", "") or str(error.reason or error)
        raise ConfigError(
            "A client SSLEngine created with the provided settings can't connect to a server "
            f"SSLEngine created with those settings. ({words}: the trust store of listener "
            f"{new.listener} must have whoever signed its own certificate)"
        ) from None


def _shake_hands(server: ListenerTls, client: ListenerTls) -> None:
    """In memory; names of hosts are not compared."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(client.settings, client.keys, client.trusted)
    context.check_hostname = False
    ends = [
        context.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.server_context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(10):  # TLS needs three turns at most
        waiting = []
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(end)
        if not waiting:
            # What the server refuses in TLSv1.3 comes after the client's last word.
            return
        ends = waiting
    raise ssl.SSLError("the handshake does not end")
