"""Which security each listener asks for, read from the broker's configuration.

A key of one listener, `listener.name.<name>.<key>`, wins over the bare key; JAAS values are looked
up per mechanism (`JaasContext.loadServerContext`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError
from ottla.config.values import comma_separated
from ottla.security.jaas import PLAIN_MODULE, JaasModule, parse_jaas
from ottla.security.sasl import MECHANISMS, PLAIN, PlainCredentials, SaslSettings

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_USER_OPTION = "user_"
_SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where a listener or a connection to another broker could not work."""
    for endpoint in config.listeners:
        uses_sasl = sasl_settings(config, endpoint.listener) is not None
        if uses_sasl and config.integer("connections.max.reauth.ms") > 0:
            raise ConfigError("connections.max.reauth.ms is not supported: it must be 0")
    broker_credentials(config, config.inter_broker_listener)


def sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings | None:
    """None for a listener without SASL."""
    if config.security_protocol_map.get(listener) not in _SASL_PROTOCOLS:
        return None
    mechanisms = _mechanisms(config, listener)
    users = _jaas(config, listener, PLAIN).options
    return SaslSettings(
        mechanisms,
        {
            option.removeprefix(_USER_OPTION): password
            for option, password in users.items()
            if option.startswith(_USER_OPTION)
        },
    )


def broker_credentials(config: BrokerConfig, listener: str) -> PlainCredentials | None:
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
    if not ("username" in options and "password" in options):
        raise ConfigError(
            f"the JAAS config of listener {listener} has no username and password, which brokers "
            "need among themselves"
        )
    return PlainCredentials(options["username"], options["password"])


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
    if module.name != PLAIN_MODULE:
        raise ConfigError(f"{names[0]} must name {PLAIN_MODULE}")
    return module
