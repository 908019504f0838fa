"""How many connections a broker takes: in all, per listener and address (ConnectionQuotas).

One object for all listeners of a broker; the limits may change while it runs. Where max.connections
is lowered, or a broker needs a place for another broker, the connections that were silent longest
go (KIP-402).
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.config import comma_separated
from ottla.configdef import ConfigError

if TYPE_CHECKING:
    from ottla.broker.connection import ClientConnection
    from ottla.config import BrokerConfig

log = logging.getLogger(__name__)

_LOCALHOST = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class ConnectionLimits:
    total: int
    # What `total` comes from, for whoever is refused.
    total_is: str
    per_ip: int
    ip_overrides: dict[str, int] = field(default_factory=dict)
    per_listener: dict[str, int] = field(default_factory=dict)
    # The listener between brokers, where clients have another one: it gets a place in any case.
    protected: str | None = None


def limits_of(config: BrokerConfig, descriptors: int | None = None) -> ConnectionLimits:
    """`descriptors`: what connections may take of the process's; where they took all, the next
    file that cannot be opened would look like a folder that fails."""
    listeners = [endpoint.listener for endpoint in config.listeners]
    total, total_is = config.integer("max.connections"), "max.connections"
    if descriptors is not None and descriptors < total:
        total, total_is = descriptors, "the share of connections in open files, see ulimit -n,"
    given = {name: _of_listener(config, name) for name in listeners}
    return ConnectionLimits(
        total=total,
        total_is=total_is,
        per_ip=config.integer("max.connections.per.ip"),
        ip_overrides=_ip_overrides(config.text("max.connections.per.ip.overrides")),
        per_listener={name: limit for name, limit in given.items() if limit is not None},
        protected=config.inter_broker_listener if len(listeners) > 1 else None,
    )


def _of_listener(config: BrokerConfig, listener: str) -> int | None:
    name = f"listener.name.{listener.lower()}.max.connections"
    for level in (config.dynamic_broker, config.dynamic_default, config.static):
        if name in level:
            try:
                return int(level[name])
            except ValueError:
                raise ConfigError(f"{name} is not a number: {level[name]}") from None
    return None


def _ip_overrides(text: str) -> dict[str, int]:
    """`address:count` pairs, checked by `config_checks`."""
    overrides = {}
    for item in comma_separated(text):
        host, _, count = item.rpartition(":")
        for address in _addresses(host.strip()):
            overrides[address] = int(count)
    return overrides


def _addresses(host: str) -> tuple[str, ...]:
    if host == "localhost":
        return _LOCALHOST
    try:
        return (str(ipaddress.ip_address(host.strip("[]"))),)
    except ValueError:
        log.warning("max.connections.per.ip.overrides: %s is no address and is left out", host)
        return ()


class ConnectionQuotas:
    """Counts the connections of all listeners."""

    def __init__(self, config: BrokerConfig, descriptors: int | None = None) -> None:
        self._descriptors = descriptors
        self._limits = limits_of(config, descriptors)
        # Connections with their listeners, in the order of arrival.
        self._connections: dict[ClientConnection, str] = {}
        self._per_listener: Counter[str] = Counter()
        self._per_host: Counter[str] = Counter()

    def reconfigure(self, config: BrokerConfig) -> None:
        """New limits, at once: a lower max.connections ends what is too much."""
        limits = limits_of(config, self._descriptors)
        if limits != self._limits:
            self._limits = limits
            self._shed()

    def admit(self, connection: ClientConnection, listener: str) -> str | None:
        """Counts a new connection in, or says why it is refused."""
        limits, host = self._limits, connection.client_host
        is_protected = listener == limits.protected
        of_listener = limits.per_listener.get(listener)
        if of_listener is not None and self._per_listener[listener] >= of_listener:
            return f"max.connections ({of_listener}) of the listener is reached"
        if not is_protected and len(self._connections) >= limits.total:
            return f"{limits.total_is} ({limits.total}) is reached"
        of_address = limits.ip_overrides.get(host, limits.per_ip)
        if self._per_host[host] >= of_address:
            return f"max.connections.per.ip ({of_address}) is reached"
        self._connections[connection] = listener
        self._per_listener[listener] += 1
        self._per_host[host] += 1
        if is_protected:
            self._shed()
        return None

    def release(self, connection: ClientConnection) -> None:
        """The connection is gone; nothing happens where it was not counted."""
        listener = self._connections.pop(connection, None)
        if listener is None:
            return
        self._per_listener[listener] -= 1
        self._per_host[connection.client_host] -= 1
        if not self._per_host[connection.client_host]:
            del self._per_host[connection.client_host]

    def _shed(self) -> None:
        limits = self._limits
        excess = len(self._connections) - limits.total
        if excess <= 0:
            return
        ours = [c for c, listener in self._connections.items() if listener != limits.protected]
        for connection in sorted(ours, key=lambda c: c.last_active)[:excess]:
            connection.evict(f"{limits.total_is} ({limits.total}) is exceeded")
            self.release(connection)
