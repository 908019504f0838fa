"""Which security each listener asks for, read from the broker's configuration.

A key of one listener, `listener.name.<name>.<key>`, wins over the bare key; JAAS values are looked
up per mechanism (`JaasContext.loadServerContext`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError, ConfigType, parse_type
from ottla.config.values import comma_separated
from ottla.security.jaas import JaasModule, parse_jaas
from ottla.security.sasl.mechanisms import (
    LOGIN_MODULES,
    MECHANISMS,
    SaslSettings,
    client_credentials,
)
from ottla.security.sasl.oauth.credentials import TOKEN_URL
from ottla.security.sasl.oauth.exchange import OAUTHBEARER
from ottla.security.sasl.oauth.validation import OAuthSettings
from ottla.security.sasl.plain import PLAIN

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.security.sasl.exchange import Credentials

_USER_OPTION = "user_"
_SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where a listener or a connection to another broker could not work."""
    for endpoint in config.listeners:
        sasl_settings(config, endpoint.listener)
    broker_credentials(config, config.inter_broker_listener)


def sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings | None:
    """None for a listener without SASL."""
    if config.security_protocol_map.get(listener) not in _SASL_PROTOCOLS:
        return None
    mechanisms = _mechanisms(config, listener)
    # Kafka asks for a value for each, also where it has nothing to say (SCRAM).
    jaas = {mechanism: _jaas(config, listener, mechanism) for mechanism in mechanisms}
    plain_options = jaas[PLAIN].options if PLAIN in jaas else {}
    return SaslSettings(
        mechanisms,
        {
            option.removeprefix(_USER_OPTION): password
            for option, password in plain_options.items()
            if option.startswith(_USER_OPTION)
        },
        {mechanism: _max_reauth_ms(config, listener, mechanism) for mechanism in mechanisms},
        _oauth_settings(config, listener) if OAUTHBEARER in mechanisms else None,
    )


def broker_credentials(config: BrokerConfig, listener: str) -> Credentials | None:
    """What this broker shows to others on the listener; None without SASL."""
    if config.security_protocol_map.get(listener) not in _SASL_PROTOCOLS:
        return None
    mechanism = config.text("sasl.mechanism.inter.broker.protocol")
    if mechanism not in _mechanisms(config, listener):
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
            "when SASL is used for inter-broker communication"
        )
    options = _jaas(config, listener, mechanism).options
    if mechanism == OAUTHBEARER:
        url = _of_listener(config, listener, TOKEN_URL)
        return client_credentials(mechanism, options, {} if url is None else {TOKEN_URL: url})
    if not ("username" in options and "password" in options):
        raise ConfigError(
            f"the JAAS config of listener {listener} has no username and password, which brokers "
            "need among themselves"
        )
    return client_credentials(mechanism, options, {})


def _mechanisms(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    own = config.static.get(f"listener.name.{listener.lower()}.sasl.enabled.mechanisms")
    enabled = config.items("sasl.enabled.mechanisms") if own is None else comma_separated(own)
    unknown = [mechanism for mechanism in enabled if mechanism not in MECHANISMS]
    if unknown or not enabled:
        raise ConfigError(
            f"Listener {listener} enables SASL mechanisms {','.join(enabled) or 'none'}; "
            f"supported: {','.join(MECHANISMS)} (sasl.enabled.mechanisms)"
        )
    return tuple(dict.fromkeys(enabled))


def _oauth_settings(config: BrokerConfig, listener: str) -> OAuthSettings:
    """Kafka's own names (KIP-768). Tokens without a signature, which its default takes, are not
    taken here."""
    url = _of_listener(config, listener, "sasl.oauthbearer.jwks.endpoint.url")
    if not url:
        raise ConfigError(
            f"Listener {listener} enables OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url to "
            "the keys of your tokens, file:///path/of/jwks.json or https://…"
        )
    return OAuthSettings(
        url,
        _audiences(config, listener),
        _of_listener(config, listener, "sasl.oauthbearer.expected.issuer"),
        config.integer("sasl.oauthbearer.clock.skew.seconds"),
        _of_listener(config, listener, "sasl.oauthbearer.sub.claim.name") or "sub",
        config.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
    )


def _audiences(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    name = "sasl.oauthbearer.expected.audience"
    key = _own_key(config, listener, OAUTHBEARER, name)
    return tuple(config.items(name) if key is None else comma_separated(config.static[key]))


def _of_listener(config: BrokerConfig, listener: str, name: str) -> str | None:
    key = _own_key(config, listener, OAUTHBEARER, name)
    return config.optional_text(name) if key is None else config.static[key]


def _max_reauth_ms(config: BrokerConfig, listener: str, mechanism: str) -> int:
    name = "connections.max.reauth.ms"
    key = _own_key(config, listener, mechanism, name)
    if key is None:
        return config.integer(name)
    value = parse_type(key, config.static[key], ConfigType.LONG)
    return value if isinstance(value, int) else 0


def _own_key(config: BrokerConfig, listener: str, mechanism: str, name: str) -> str | None:
    """Under which name a listener has a config for itself, for the mechanism or for all; None where
    the bare name counts. One for a mechanism counts with its listener only."""
    prefix = f"listener.name.{listener.lower()}."
    keys = (f"{prefix}{mechanism.lower()}.{name}", prefix + name)
    return next((key for key in keys if key in config.static), None)


def _jaas(config: BrokerConfig, listener: str, mechanism: str) -> JaasModule:
    by_mechanism = f"{mechanism.lower()}.sasl.jaas.config"
    names = (f"listener.name.{listener.lower()}.{by_mechanism}", by_mechanism)
    text = next((config.static[name] for name in names if name in config.static), None)
    if text is None:
        raise ConfigError(
            f"Could not find a 'KafkaServer' or '{listener.lower()}.KafkaServer' entry in the "
            f"JAAS configuration: set {names[0]}"
        )
    module = parse_jaas(text)
    if module.name != LOGIN_MODULES[mechanism]:
        raise ConfigError(f"{names[0]} must name {LOGIN_MODULES[mechanism]}")
    return module
