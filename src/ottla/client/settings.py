"""Settings of an administration client from a property file (`--command-config`).

Kafka's names. Those without a meaning here (retries, buffers, metrics …) are passed over, as
Kafka passes over names it does not know; a kind of security that is not there is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.cluster import DEFAULT_CLIENT_ID, DEFAULT_TIMEOUT_MS
from ottla.config.definitions import (
    ConfigError,
    ConfigType,
    InvalidConfigValue,
    parse_properties,
    parse_type,
)
from ottla.security.jaas import parse_jaas
from ottla.security.sasl.mechanisms import LOGIN_MODULES, MECHANISMS, client_credentials

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.runtime import Runtime
    from ottla.security.sasl.exchange import Credentials
    from ottla.security.tls.settings import TlsSettings

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class AdminConfig:
    client_id: str = DEFAULT_CLIENT_ID
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    credentials: Credentials | None = None
    # None: connections are not encrypted.
    tls: TlsSettings | None = None

    def connected(self, runtime: Runtime) -> Runtime:
        """The runtime with connections as these settings want them; raises ConfigError for keys
        and certificates that cannot be used."""
        if self.tls is None:
            return runtime
        from ottla.security.tls.network import client_runtime  # few clients need it

        return client_runtime(runtime, self.tls)

    @classmethod
    def from_file(cls, path: Path) -> AdminConfig:
        """Raises OSError for a file that cannot be read, ConfigError for what it says."""
        return cls.from_properties(parse_properties(path.read_text(encoding="latin-1")))

    @classmethod
    def from_properties(cls, properties: dict[str, str]) -> AdminConfig:
        # default.api.timeout.ms bounds a whole call, as the time-out does here.
        timeout = properties.get("default.api.timeout.ms", str(DEFAULT_TIMEOUT_MS))
        timeout_ms = parse_type("default.api.timeout.ms", timeout, ConfigType.INT)
        if not isinstance(timeout_ms, int) or timeout_ms < 0:
            raise InvalidConfigValue("default.api.timeout.ms", timeout, "Value must be at least 0")
        return cls(
            client_id=properties.get("client.id") or DEFAULT_CLIENT_ID,
            timeout_ms=timeout_ms,
            credentials=_credentials(properties),
            tls=_tls(properties),
        )


def _protocol(properties: dict[str, str]) -> str:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise InvalidConfigValue(
            "security.protocol", protocol, f"String must be one of: {', '.join(_PROTOCOLS)}"
        )
    return protocol


def _tls(properties: dict[str, str]) -> TlsSettings | None:
    if not _protocol(properties).endswith("SSL"):
        return None
    from ottla.security.tls.settings import TlsSettings

    return TlsSettings.from_properties(properties)


def _credentials(properties: dict[str, str]) -> Credentials | None:
    if not _protocol(properties).startswith("SASL_"):
        return None
    # Kafka's default mechanism is GSSAPI, so that a file without one cannot be meant for PLAIN.
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MECHANISMS:
        raise InvalidConfigValue(
            "sasl.mechanism", mechanism, f"String must be one of: {', '.join(MECHANISMS)}"
        )
    module = parse_jaas(properties.get("sasl.jaas.config", ""))
    # By its last word: Kafka's clients are often shaded into packages of another name.
    if module.name.rpartition(".")[2] != LOGIN_MODULES[mechanism].rpartition(".")[2]:
        raise ConfigError(f"sasl.jaas.config must name {LOGIN_MODULES[mechanism]}")
    return client_credentials(mechanism, module.options, properties)
