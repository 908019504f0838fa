"""How many connections a broker takes: in all, per listener and address (ConnectionQuotas). How
fast it takes them is in `broker/quotas/connection_rates.py`.

One object for all listeners of a broker; the limits may change while it runs. Where max.connections
is lowered, or a broker needs a place for another broker, the connections that were silent longest
go (KIP-402).
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ottla.broker.quotas.connection_rates import ConnectionRates, Turn, addresses_of, of_listener
from ottla.config.values import comma_separated

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)

# Connections above the rate of their address that are held until they are closed; any others are
# closed at once.
MAX_HELD = 100


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
    given = {name: of_listener(config, name, "max.connections") for name in listeners}
    return ConnectionLimits(
        total=total,
        total_is=total_is,
        per_ip=config.integer("max.connections.per.ip"),
        ip_overrides=_ip_overrides(config.text("max.connections.per.ip.overrides")),
        per_listener={name: limit for name, limit in given.items() if limit is not None},
        protected=config.inter_broker_listener if len(listeners) > 1 else None,
    )


def _ip_overrides(text: str) -> dict[str, int]:
    """`address:count` pairs, checked by `config/checks.py`."""
    overrides = {}
    for item in comma_separated(text):
        host, _, count = item.rpartition(":")
        addresses = addresses_of(host.strip())
        if not addresses:
            logger.warning(
                "max.connections.per.ip.overrides: %s is not an address and is left out", host
            )
        for address in addresses:
            overrides[address] = int(count)
    return overrides


class LimitedConnection(Protocol):
    """A connection that takes a place."""

    # When it was heard of last.
    last_active: float

    @property
    def client_host(self) -> str: ...

    def evict(self, reason: str) -> None:
        """Ends it: there is no place for it any more."""


class ConnectionQuotas:
    """Counts the connections of all listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        descriptors: int | None = None,
        rates: ConnectionRates | None = None,
    ) -> None:
        self._descriptors = descriptors
        self._rates = rates or ConnectionRates(config)
        self._held: set[LimitedConnection] = set()
        self._limits = limits_of(config, descriptors)
        # Connections with their listeners, in the order of arrival.
        self._connections: dict[LimitedConnection, str] = {}
        self._per_listener: Counter[str] = Counter()
        self._per_host: Counter[str] = Counter()

    def reconfigure(self, config: BrokerConfig) -> None:
        """New limits, at once: a lower max.connections ends what is too much."""
        self._rates.reconfigure(config)
        limits = limits_of(config, self._descriptors)
        if limits != self._limits:
            self._limits = limits
            self._shed()

    def receive(self, connection: LimitedConnection, listener: str, now_ms: float) -> Turn:
        """Counts a new connection in and says when it is served, or why it is refused."""
        turn = self._rates.turn(listener, connection.client_host, now_ms)
        if turn.refusal is None:
            refusal = self.admit(connection, listener)
            return turn if refusal is None else Turn(0, refusal)
        if len(self._held) >= MAX_HELD:
            return Turn(0, turn.refusal)
        if turn.wait_ms:
            self._held.add(connection)
        return turn

    def admit(self, connection: LimitedConnection, listener: str) -> str | None:
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

    def release(self, connection: LimitedConnection) -> None:
        """The connection is gone; nothing happens where it was not counted."""
        self._held.discard(connection)
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
