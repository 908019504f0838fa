"""Places for connections: limits in all, per listener and address, and new limits while it runs."""

from __future__ import annotations

import itertools

import pytest

from ottla.broker.network.limits import ConnectionQuotas, limits_of
from ottla.broker.quotas.connection_rates import ConnectionRates
from ottla.broker.quotas.entities import Entity
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError

TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def config(properties: dict[str, str] | None = None, **settings: str) -> BrokerConfig:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    needed = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1"}
    return BrokerConfig.from_properties(needed | (properties or {}) | given)


class Peer:
    """As much of a ClientConnection as the quotas touch."""

    _clock = itertools.count()

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.client_host = host
        self.last_active = next(self._clock)
        self.evicted: str | None = None

    def evict(self, reason: str) -> None:
        self.evicted = reason


def admit(quotas: ConnectionQuotas, peer: Peer, listener: str = "PLAINTEXT") -> str | None:
    return quotas.admit(peer, listener)


def test_total_and_release() -> None:
    quotas = ConnectionQuotas(config(max_connections="2"))
    peers = [Peer(f"10.0.0.{number}") for number in range(3)]
    assert [admit(quotas, peer) for peer in peers[:2]] == [None, None]
    assert admit(quotas, peers[2]) == "max.connections (2) is reached"
    quotas.release(peers[2])  # was never counted
    assert admit(quotas, peers[2]) is not None
    quotas.release(peers[0])
    assert admit(quotas, peers[2]) is None


def test_connections_leave_descriptors_for_files() -> None:
    quotas = ConnectionQuotas(config(), 1)
    assert admit(quotas, Peer()) is None
    refused = admit(quotas, Peer())
    assert refused == "the share of connections in open files, see ulimit -n, (1) is reached"
    assert limits_of(config(max_connections="5"), 6).total_is == "max.connections"


def test_an_address_has_its_own_limit() -> None:
    quotas = ConnectionQuotas(
        config(max_connections_per_ip="1", max_connections_per_ip_overrides="10.0.0.9:2, ::1:0")
    )
    assert admit(quotas, Peer("10.0.0.1")) is None
    assert admit(quotas, Peer("10.0.0.1")) == "max.connections.per.ip (1) is reached"
    assert [admit(quotas, Peer("10.0.0.9")) for _ in range(2)] == [None, None]
    assert admit(quotas, Peer("10.0.0.9")) == "max.connections.per.ip (2) is reached"
    assert admit(quotas, Peer("::1")) == "max.connections.per.ip (0) is reached"


def test_names_in_overrides(caplog: pytest.LogCaptureFixture) -> None:
    limits = limits_of(config(max_connections_per_ip_overrides="localhost:7,elsewhere:3"))
    assert limits.ip_overrides == {"127.0.0.1": 7, "::1": 7}
    assert "elsewhere is not an address" in caplog.text


def test_addresses_count_over_all_listeners() -> None:
    quotas = ConnectionQuotas(config(TWO_LISTENERS, max_connections_per_ip="1"))
    assert admit(quotas, Peer(), "CLIENTS") is None
    assert admit(quotas, Peer(), "BROKERS") == "max.connections.per.ip (1) is reached"


def test_a_listener_has_its_own_limit() -> None:
    own = {"listener.name.clients.max.connections": "1"}
    quotas = ConnectionQuotas(config(TWO_LISTENERS | own))
    assert admit(quotas, Peer(), "CLIENTS") is None
    assert admit(quotas, Peer(), "CLIENTS") == "max.connections (1) of the listener is reached"
    assert admit(quotas, Peer(), "BROKERS") is None
    with pytest.raises(ConfigError, match="is not a number: many"):
        limits_of(config(TWO_LISTENERS | {"listener.name.clients.max.connections": "many"}))


def test_brokers_get_a_place_and_the_most_silent_client_goes() -> None:
    quotas = ConnectionQuotas(config(TWO_LISTENERS, max_connections="2"))
    silent, lively = Peer(), Peer()
    assert [admit(quotas, peer, "CLIENTS") for peer in (lively, silent)] == [None, None]
    lively.last_active = silent.last_active + 1
    assert admit(quotas, Peer(), "BROKERS") is None
    assert (silent.evicted, lively.evicted) == ("max.connections (2) is exceeded", None)
    assert admit(quotas, Peer(), "CLIENTS") == "max.connections (2) is reached"


def test_one_listener_protects_nobody() -> None:
    quotas = ConnectionQuotas(config(max_connections="1"))
    assert admit(quotas, Peer()) is None
    assert admit(quotas, Peer()) is not None


def test_new_limits_hold_at_once() -> None:
    running = config(max_connections_per_ip="1")
    quotas = ConnectionQuotas(running)
    peers = [Peer() for _ in range(4)]
    assert admit(quotas, peers[0]) is None and admit(quotas, peers[1]) is not None
    quotas.reconfigure(running.with_dynamic({"max.connections.per.ip": "4"}, {}))
    assert [admit(quotas, peer) for peer in peers[1:]] == [None] * 3
    # Fewer per address: whoever is there stays, as in Kafka; fewer in all: the oldest go.
    quotas.reconfigure(running.with_dynamic({}, {}))
    assert [peer.evicted for peer in peers] == [None] * 4
    quotas.reconfigure(running.with_dynamic({"max.connections": "2"}, {}))
    assert [peer.evicted is not None for peer in peers] == [True, True, False, False]
    wider = {"max.connections.per.ip.overrides": "10.0.0.1:3"}
    quotas.reconfigure(running.with_dynamic(wider, {}))
    assert admit(quotas, Peer()) is None
    assert admit(quotas, Peer()) == "max.connections.per.ip (3) is reached"


def test_only_so_many_refused_connections_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.network.limits.MAX_HELD", 2)
    rates = ConnectionRates(config())
    rates.set(Entity(None, None, "10.0.0.1"), {"connection_creation_rate": "0"})
    quotas = ConnectionQuotas(config(), None, rates)
    peers = [Peer() for _ in range(4)]
    turns = [quotas.receive(peer, "PLAINTEXT", 0.0) for peer in peers[:3]]
    assert [turn.wait_ms for turn in turns] == [1000, 1000, 0]
    assert all(turn.refusal for turn in turns)
    quotas.release(peers[0])
    assert quotas.receive(peers[3], "PLAINTEXT", 0.0).wait_ms == 1000
