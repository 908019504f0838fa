"""What a broker needs of `ottla.security`, made from its configuration.

Brokers without SASL and without an authoriser start without importing any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime
    from ottla.security.authorizer import AclAuthorizer
    from ottla.security.sasl import PlainCredentials
    from ottla.security.tls.broker import BrokerTls


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where listeners ask for what cannot be served."""
    if all(endpoint.security_protocol == "PLAINTEXT" for endpoint in config.listeners):
        return
    from ottla.security import listeners

    listeners.check_security(config)


def peer_credentials(config: BrokerConfig, listener: str) -> PlainCredentials | None:
    """What this broker shows to others; None where the listener does not ask who connects."""
    if not config.security_protocol_map.get(listener, "").startswith("SASL_"):
        return None
    from ottla.security.listeners import broker_credentials

    return broker_credentials(config, listener)


def make_authorizer(
    config: BrokerConfig, runtime: Runtime, store: MetadataStore
) -> AclAuthorizer | None:
    """None where everything is allowed; raises ConfigError for one that does not exist."""
    if not config.text("authorizer.class.name"):
        return None
    from ottla.security.authorizer import AclAuthorizer, authorizer_settings

    settings = authorizer_settings(config.static)
    return None if settings is None else AclAuthorizer(runtime, store, settings)


def make_tls(config: BrokerConfig, runtime: Runtime) -> BrokerTls | None:
    """None where no listener is encrypted; raises ConfigError for keys that cannot be used."""
    if not any(endpoint.security_protocol.endswith("SSL") for endpoint in config.listeners):
        return None
    from ottla.security.tls.broker import BrokerTls

    return BrokerTls(config, runtime.disk)


def store_context(config: BrokerConfig, runtime: Runtime) -> ssl.SSLContext | None:
    """How to connect to the store; None for in the clear. Raises ConfigError."""
    if not config.boolean("zookeeper.ssl.client.enable"):
        return None
    from ottla.security.tls.store import broker_context

    return broker_context(config, runtime.disk)
