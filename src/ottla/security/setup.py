"""What a broker needs of `ottla.security`, made from its configuration.

Brokers without SASL and without an authoriser start without importing any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime
    from ottla.security.authorizer import AclAuthorizer
    from ottla.security.delegation_tokens import DelegationTokens
    from ottla.security.login_delays import LoginDelays
    from ottla.security.sasl.exchange import Credentials
    from ottla.security.sasl.mechanisms import SaslUsers
    from ottla.security.sasl.oauth.keys import TokenKeys
    from ottla.security.sasl.oauth.validation import OAuthSettings
    from ottla.security.scram_users import ScramUserCache
    from ottla.security.tls.broker import BrokerTls

_NONCE_BITS = 160

# The key of delegation tokens, by its name and by its old one.
TOKEN_KEYS = ("delegation.token.secret.key", "delegation.token.master.key")


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where listeners ask for what cannot be served."""
    if all(endpoint.security_protocol == "PLAINTEXT" for endpoint in config.listeners):
        return
    from ottla.security import listeners

    listeners.check_security(config)


def peer_credentials(config: BrokerConfig, listener: str) -> Credentials | None:
    """What this broker shows to others; None where the listener does not ask who connects."""
    if not config.security_protocol_map.get(listener, "").startswith("SASL_"):
        return None
    from ottla.security.listeners import broker_credentials

    return broker_credentials(config, listener)


def make_scram_users(
    config: BrokerConfig, tokens: DelegationTokens | None
) -> ScramUserCache | None:
    """None where no listener asks who connects."""
    if not any(endpoint.security_protocol.startswith("SASL_") for endpoint in config.listeners):
        return None
    from ottla.security.scram_users import ScramUserCache

    return ScramUserCache(tokens)


def make_sasl_users(
    scram: ScramUserCache | None,
    token_keys: Mapping[OAuthSettings, TokenKeys],
    runtime: Runtime,
) -> SaslUsers | None:
    """What the exchanges of all listeners share."""
    if scram is None:
        return None
    from ottla.security.sasl.mechanisms import SaslUsers

    return SaslUsers(scram, lambda: f"{runtime.random.getrandbits(_NONCE_BITS):x}", token_keys)


def make_token_keys(config: BrokerConfig, runtime: Runtime) -> dict[OAuthSettings, TokenKeys]:
    """The keys that tokens of OAUTHBEARER are checked with, by what their listeners say."""
    if not any(endpoint.security_protocol.startswith("SASL_") for endpoint in config.listeners):
        return {}
    from ottla.security.listeners import sasl_settings

    found = [sasl_settings(config, endpoint.listener) for endpoint in config.listeners]
    wanted = {each.oauth for each in found if each is not None and each.oauth is not None}
    if not wanted:
        return {}
    from ottla.security.sasl.oauth.documents import read_document
    from ottla.security.sasl.oauth.keys import TokenKeys

    return {each: TokenKeys(each, runtime.clock, read_document) for each in sorted(wanted)}


def make_login_delays(config: BrokerConfig) -> LoginDelays | None:
    """What failed logins cost, on all listeners together; None where there are no logins."""
    if not any(endpoint.security_protocol.startswith("SASL_") for endpoint in config.listeners):
        return None
    from ottla.security.login_delays import LONGEST_MS, LoginDelays

    idle_ms = config.integer("connections.max.idle.ms")
    return LoginDelays(
        config.integer("connection.failed.authentication.delay.ms"),
        # A connection that waits is silent: it must not be closed for that.
        min(LONGEST_MS, idle_ms / 2) if idle_ms >= 0 else LONGEST_MS,
    )


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


def make_tokens(
    config: BrokerConfig, runtime: Runtime, store: MetadataStore
) -> DelegationTokens | None:
    """None where the brokers have no key for delegation tokens."""
    if not any(config.optional_text(name) for name in TOKEN_KEYS):
        return None
    from ottla.security.delegation_tokens import DelegationTokens, token_settings

    settings = token_settings(config)
    return None if settings is None else DelegationTokens(runtime, store, settings)
