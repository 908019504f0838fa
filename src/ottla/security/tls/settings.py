"""The `ssl.*` properties of one listener or one client (SslConfigs), and what goes together
(DefaultSslEngineFactory.createKeystore, createTruststore). Pure.

Ottla takes key stores as PEM and PKCS12. Kafka's default type, JKS, is the name under which Java
reads PKCS12 as well, so it is refused only where a file really is one (`stores.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.config.definitions import ConfigError, InvalidConfigValue
from ottla.config.values import comma_separated

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
STORE_TYPES = (PEM, PKCS12, JKS)
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")
# Said in two places of Kafka: the names that may change while a broker runs.
RECONFIGURABLE = frozenset(
    f"ssl.{name}"
    for name in (
        "keystore.type", "keystore.location", "keystore.password", "key.password",
        "keystore.key", "keystore.certificate.chain", "truststore.type", "truststore.location",
        "truststore.password", "truststore.certificates",
    )
)  # fmt: skip
# Would change what is trusted or how; there is no Java here to load them.
_REFUSED = {
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
    "ssl.provider": "",
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where keys or trusted certificates are: a file, or PEM text in the properties."""

    type: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    # Of key stores only.
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        return self.location is not None or self.certificates is not None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    key_store: StoreSettings = StoreSettings(JKS)
    trust_store: StoreSettings = StoreSettings(JKS)
    protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    # Whether a client compares the server's certificate with the host that it asked for.
    checks_host: bool = True
    principal_rules: str = "DEFAULT"

    @classmethod
    def from_properties(cls, given: Mapping[str, str]) -> TlsSettings:
        """Of names as `ssl.keystore.location`; raises ConfigError with Kafka's texts."""
        for name, harmless in _REFUSED.items():
            if given.get(name, "") not in ("", harmless):
                raise ConfigError(f"{name} is not supported: TLS is OpenSSL's here, take it out")
        client_auth = given.get("ssl.client.auth", "none")
        if client_auth not in CLIENT_AUTH:
            choices = ", ".join(reversed(CLIENT_AUTH))
            raise InvalidConfigValue(
                "ssl.client.auth", client_auth, f"String must be one of: {choices}"
            )
        return cls(
            key_store=_key_store(given),
            trust_store=_trust_store(given),
            protocols=_protocols(given.get("ssl.enabled.protocols")),
            cipher_suites=tuple(comma_separated(given.get("ssl.cipher.suites", ""))),
            client_auth=client_auth,
            checks_host=_checks_host(given.get("ssl.endpoint.identification.algorithm", "https")),
            principal_rules=given.get("ssl.principal.mapping.rules", "DEFAULT"),
        )


def _key_store(given: Mapping[str, str]) -> StoreSettings:
    store = StoreSettings(
        type=_type(given, "ssl.keystore.type"),
        location=given.get("ssl.keystore.location"),
        password=given.get("ssl.keystore.password"),
        certificates=given.get("ssl.keystore.certificate.chain"),
        key=given.get("ssl.keystore.key"),
        key_password=given.get("ssl.key.password"),
    )
    if store.key is not None:
        if store.type != PEM:
            raise ConfigError(
                "SSL private key can be specified only for PEM, but key store type is "
                f"{store.type}."
            )
        if store.certificates is None:
            raise ConfigError(
                "SSL private key is specified, but certificate chain is not specified."
            )
        if store.location is not None:
            raise ConfigError("Both SSL key store location and separate private key are specified.")
        if store.password is not None:
            raise ConfigError(
                "SSL key store password cannot be specified with PEM format, only key password "
                "may be specified."
            )
    elif store.certificates is not None:
        raise ConfigError("SSL certificate chain is specified, but private key is not specified")
    elif store.type == PEM and store.location is not None:
        if store.password is not None:
            raise ConfigError(
                "SSL key store password cannot be specified with PEM format, only key password "
                "may be specified"
            )
    elif store.location is None and store.password is not None:
        raise ConfigError("SSL key store is not specified, but key store password is specified.")
    elif store.location is not None and store.password is None:
        raise ConfigError("SSL key store is specified, but key store password is not specified.")
    return store


def _trust_store(given: Mapping[str, str]) -> StoreSettings:
    store = StoreSettings(
        type=_type(given, "ssl.truststore.type"),
        location=given.get("ssl.truststore.location"),
        password=given.get("ssl.truststore.password"),
        certificates=given.get("ssl.truststore.certificates"),
    )
    if store.certificates is not None:
        if store.type != PEM:
            raise ConfigError(
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{store.type}."
            )
        if store.location is not None:
            raise ConfigError(
                "Both SSL trust store location and separate trust certificates are specified."
            )
    if store.type == PEM and store.given and store.password is not None:
        raise ConfigError("SSL trust store password cannot be specified for PEM format.")
    if not store.given and store.password is not None:
        raise ConfigError(
            "SSL trust store is not specified, but trust store password is specified."
        )
    return store


def _type(given: Mapping[str, str], name: str) -> str:
    kind = given.get(name, JKS)
    if kind.upper() not in STORE_TYPES:
        raise ConfigError(f"{name}={kind} is not supported; supported: PEM, PKCS12")
    return kind.upper()


def _protocols(text: str | None) -> tuple[str, ...]:
    given = PROTOCOLS if text is None else tuple(comma_separated(text))
    unknown = [protocol for protocol in given if protocol not in PROTOCOLS]
    if unknown:
        raise ConfigError(
            f"ssl.enabled.protocols: {unknown[0]} is not supported; supported: "
            + ", ".join(PROTOCOLS)
        )
    return given or PROTOCOLS


def _checks_host(algorithm: str) -> bool:
    if algorithm.lower() not in ("", "https"):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm} is not supported; it is https, or "
            "empty for no check of the host's name"
        )
    return algorithm != ""
