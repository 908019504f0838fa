"""How fast connections may be made: to the broker, to a listener, from an address (KIP-612).

Above the rate of the broker or of its listener a connection waits for its turn: Kafka's acceptor
leaves it in the backlog, here it is open but not read. Above the rate of its address it is held
unread for a moment and then closed.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ottla.broker.quotas.entities import Entity, StoredQuotas
from ottla.broker.quotas.rate_meter import RateMeter, Window, throttle_ms
from ottla.config.definitions import INT_MAX, ConfigError
from ottla.metadata.znodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

RATE_OF_ADDRESS = "connection_creation_rate"
RATE = "max.connection.creation.rate"
# A connection whose turn is further off than this is closed: its peer would not wait.
LONGEST_WAIT_MS = 10_000.0
# The addresses that were heard of longest ago are forgotten, and with them what they used.
MAX_ADDRESSES = 10_000
_LOCALHOST = ("127.0.0.1", "::1")


class Turn(NamedTuple):
    """When a new connection is served; one that is refused is closed then."""

    wait_ms: int = 0
    refusal: str | None = None


def addresses_of(host: str) -> tuple[str, ...]:
    """An address as peers have it; nothing for names, which are not looked up."""
    if host == "localhost":
        return _LOCALHOST
    try:
        return (str(ipaddress.ip_address(host.strip("[]"))),)
    except ValueError:
        return ()


def of_listener(config: BrokerConfig, listener: str, base: str) -> int | None:
    """What a listener has for itself of a config of the broker."""
    name = f"listener.name.{listener.lower()}.{base}"
    for level in (config.dynamic_broker, config.dynamic_default, config.static):
        if name in level:
            try:
                return int(level[name])
            except ValueError:
                raise ConfigError(f"{name} is not a number: {level[name]}") from None
    return None


class _Limited:
    """A rate and what was used of it."""

    def __init__(self, window: Window, limit: int) -> None:
        self.limit = limit
        self._window = window
        self._meter = RateMeter(window)

    def use(self, count: int, now_ms: float) -> int:
        """How long to wait, one window at most (QuotaUtils.boundedThrottleTime)."""
        self._meter.record(count, now_ms)
        rate, covered_ms = self._meter.measure(now_ms)
        longest = round(self._window.sample_ms)
        if self.limit <= 0:
            return longest if rate > 0 else 0
        return min(throttle_ms(rate, self.limit, covered_ms), longest)


class ConnectionRates(StoredQuotas):
    """One object for all listeners of a broker; the limits may change while it runs."""

    of_addresses = True

    def __init__(self, config: BrokerConfig) -> None:
        self._window = Window(
            config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * 1000.0
        )
        self._broker = _Limited(self._window, INT_MAX)
        self._listeners = {
            endpoint.listener: _Limited(self._window, INT_MAX) for endpoint in config.listeners
        }
        # The listener between brokers, where clients have another one, knows its own rate only.
        self._protected: str | None = None
        # When the last connection of a listener had its turn.
        self._last_turn_ms: dict[str, float] = {}
        # By address, and for all others under the name of the default.
        self._limits: dict[str, int] = {}
        self._addresses: dict[str, _Limited] = {}
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        self._broker.limit = config.integer(RATE)
        for name, limited in self._listeners.items():
            of_its_own = of_listener(config, name, RATE)
            limited.limit = INT_MAX if of_its_own is None else of_its_own
        self._protected = config.inter_broker_listener if len(self._listeners) > 1 else None

    def set(self, entity: Entity, configs: Mapping[str, str]) -> None:
        name = unquote(entity.ip or "")
        try:
            limit = float(configs.get(RATE_OF_ADDRESS, INT_MAX))
        except ValueError:
            limit = INT_MAX
        for address in (name,) if name == DEFAULT_ENTITY else addresses_of(name):
            if 0 <= limit < INT_MAX:
                self._limits[address] = math.ceil(limit)
            else:
                self._limits.pop(address, None)

    def turn(self, listener: str, host: str, now_ms: float) -> Turn:
        """Counts a new connection, unless its address has too many of them."""
        refused = self._of_address(host, now_ms)
        if refused is not None:
            return refused
        limits = [self._listeners[listener]] if listener in self._listeners else []
        if listener != self._protected:
            limits.append(self._broker)
        limits = [limited for limited in limits if limited.limit < INT_MAX]
        if not limits:
            return Turn()
        # One after the other, as Kafka's acceptor takes them.
        at_ms = max(now_ms, self._last_turn_ms.get(listener, now_ms))
        if at_ms - now_ms > LONGEST_WAIT_MS:
            return Turn(0, f"too many connections wait for {RATE}")
        at_ms += max(limited.use(1, at_ms) for limited in limits)
        self._last_turn_ms[listener] = at_ms
        return Turn(round(at_ms - now_ms))

    def _of_address(self, host: str, now_ms: float) -> Turn | None:
        limit = self._limits.get(host, self._limits.get(DEFAULT_ENTITY))
        if limit is None:
            return None
        limited = self._addresses.pop(host, None) or _Limited(self._window, limit)
        limited.limit = limit
        self._addresses[host] = limited
        if len(self._addresses) > MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        wait_ms = limited.use(1, now_ms)
        if wait_ms <= 0:
            return None
        limited.use(-1, now_ms)  # it is not accepted
        return Turn(wait_ms, f"{RATE_OF_ADDRESS} ({limit}) of its address is exceeded")
