"""The mechanisms there are, what a listener says of them, and the exchange each one begins.

A new mechanism is its name here, its settings in `SaslSettings`, its exchange in `new_exchange`,
and its credentials in `client_credentials`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError
from ottla.security.sasl.oauth.credentials import oauth_credentials
from ottla.security.sasl.oauth.exchange import OAUTHBEARER, OAuthExchange
from ottla.security.sasl.plain import PLAIN, PlainCredentials, PlainExchange
from ottla.security.sasl.scram import SCRAM_HASHES, ScramUsers
from ottla.security.sasl.scram_client import ScramCredentials
from ottla.security.sasl.scram_server import ScramExchange

if TYPE_CHECKING:
    from ottla.security.sasl.exchange import Credentials, Exchange
    from ottla.security.sasl.oauth.keys import TokenKeys
    from ottla.security.sasl.oauth.validation import OAuthSettings

# Kafka's modules by mechanism; JAAS values must name them.
LOGIN_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
MECHANISMS = tuple(LOGIN_MODULES)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Of one listener."""

    # Those that clients may use.
    mechanisms: tuple[str, ...]
    # The accounts of PLAIN.
    plain_users: Mapping[str, str] = field(default_factory=dict)
    # connections.max.reauth.ms by mechanism; 0 and absent are no limit.
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    # How tokens of OAUTHBEARER are checked.
    oauth: OAuthSettings | None = None


@dataclass(frozen=True, slots=True)
class SaslUsers:
    """What a broker knows of users beside its listeners' properties, and where nonces come from."""

    scram: ScramUsers
    new_nonce: Callable[[], str]
    # The keys of tokens, by what a listener says of them.
    token_keys: Mapping[OAuthSettings, TokenKeys] = field(default_factory=dict)


def new_exchange(mechanism: str, settings: SaslSettings, users: SaslUsers) -> Exchange:
    """`mechanism` is one of the listener's."""
    if mechanism == PLAIN:
        return PlainExchange(settings.plain_users)
    if mechanism == OAUTHBEARER and settings.oauth is not None:
        return OAuthExchange(users.token_keys[settings.oauth].check)
    return ScramExchange(mechanism, users.scram, users.new_nonce())


def client_credentials(
    mechanism: str, options: Mapping[str, str], properties: Mapping[str, str]
) -> Credentials:
    """What a client shows, by the options of its JAAS value and, where a token has to be fetched,
    its other properties; raises ConfigError."""
    if mechanism == OAUTHBEARER:
        return oauth_credentials(properties, options)
    if not {"username", "password"} <= options.keys():
        raise ConfigError('sasl.jaas.config must name username="…" and password="…"')
    if mechanism == PLAIN:
        return PlainCredentials(options["username"], options["password"])
    return ScramCredentials(
        mechanism,
        options["username"],
        options["password"],
        by_token=options.get("tokenauth", "").lower() == "true",
    )
