"""What a console was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: str
    host: str = LOOPBACK
    port: int = 8080
    # Nothing can be changed through this console, whoever logs in.
    read_only: bool = False
    # Names by which browsers may ask, beside localhost and addresses.
    names: tuple[str, ...] = ()
    # Of the client, as in a file for --command-config: protocol, mechanism, TLS. Never credentials.
    properties: Mapping[str, str] = field(default_factory=dict)
    # For the page of znodes; None: the page says how to name one.
    zookeeper: str | None = None
    zookeeper_credentials: Path | None = None
    # Where running pipelines serve their metrics.
    pipelines: tuple[str, ...] = ()

    @property
    def needs_login(self) -> bool:
        """The cluster wants to know who is there."""
        return self.properties.get("security.protocol", "").upper().startswith("SASL_")

    @property
    def is_local(self) -> bool:
        """Only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
