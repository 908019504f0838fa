"""KIP-612: how fast connections may be made, in all, to a listener and from an address."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.connection_rates import ConnectionRates, Turn
from ottla.broker.quotas.entities import Entity
from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:9092,BROKERS://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}
HOST = "10.0.0.1"
PLAIN = "PLAINTEXT"


def config(properties: dict[str, str] | None = None) -> BrokerConfig:
    needed = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "1"}
    return BrokerConfig.from_properties(needed | (properties or {}))


def rate_of(name: str, rate: str | None) -> tuple[Entity, dict[str, str]]:
    configs = {} if rate is None else {"connection_creation_rate": rate}
    return Entity(None, None, name), configs


def waits(rates: ConnectionRates, count: int, now_ms: float, listener: str = PLAIN) -> list[int]:
    turns = [rates.turn(listener, HOST, now_ms) for _ in range(count)]
    assert all(turn.refusal is None for turn in turns)
    return [turn.wait_ms for turn in turns]


def test_without_a_limit_nobody_waits() -> None:
    assert waits(ConnectionRates(config()), 1000, 0.0) == [0] * 1000


def test_above_the_rate_of_the_broker_connections_wait_for_their_turn() -> None:
    rates = ConnectionRates(config({"max.connection.creation.rate": "2"}))
    # What ten seconds allow is free; then each waits for those before it, a window at most.
    assert waits(rates, 24, 0.0) == [0] * 20 + [500, 1000, 2000, 3000]
    assert waits(rates, 1, 100_000.0) == [0]


def test_who_would_wait_too_long_is_refused() -> None:
    rates = ConnectionRates(config({"max.connection.creation.rate": "1"}))
    turns = [rates.turn(PLAIN, HOST, 0.0) for _ in range(40)]
    assert max(turn.wait_ms for turn in turns) <= 11_000
    assert turns[-1] == Turn(0, "too many connections wait for max.connection.creation.rate")


def test_a_listener_has_its_own_rate_and_brokers_only_theirs() -> None:
    own = {
        "listener.name.clients.max.connection.creation.rate": "1",
        "max.connection.creation.rate": "2",
    }
    rates = ConnectionRates(config(TWO_LISTENERS | own))
    assert waits(rates, 11, 0.0, "CLIENTS")[-1] == 1000
    assert waits(rates, 100, 0.0, "BROKERS") == [0] * 100
    with pytest.raises(ConfigError):
        name = "listener.name.clients.max.connection.creation.rate"
        ConnectionRates(config(TWO_LISTENERS | {name: "x"}))


def test_rates_change_while_the_broker_runs() -> None:
    rates = ConnectionRates(config({"max.connection.creation.rate": "1"}))
    assert waits(rates, 11, 0.0)[-1] == 1000
    rates.reconfigure(config())
    assert waits(rates, 50, 2000.0) == [0] * 50


def test_an_address_above_its_rate_is_refused_and_not_counted() -> None:
    rates = ConnectionRates(config())
    rates.set(*rate_of("10.0.0.1", "3"))
    turns = [rates.turn(PLAIN, HOST, 0.0) for _ in range(50)]
    assert turns[:30] == [Turn()] * 30
    refusal = "connection_creation_rate (3) of its address is exceeded"
    assert turns[30:] == [Turn(333, refusal)] * 20
    assert rates.turn(PLAIN, "10.0.0.2", 0.0) == Turn()
    assert rates.turn(PLAIN, HOST, 11_000.0) == Turn()
    rates.set(*rate_of("10.0.0.1", None))
    assert waits(rates, 50, 11_000.0) == [0] * 50


def test_the_default_is_for_addresses_without_a_rate() -> None:
    rates = ConnectionRates(config())
    rates.set(*rate_of("<default>", "0"))
    rates.set(*rate_of("%3A%3A1", "100"))
    rates.set(*rate_of("nowhere", "1"))
    assert rates.turn(PLAIN, HOST, 0.0).refusal is not None
    assert rates.turn(PLAIN, "::1", 0.0) == Turn()
    rates.set(*rate_of("<default>", "nonsense"))
    assert rates.turn(PLAIN, HOST, 0.0) == Turn()


def test_many_addresses_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.quotas.connection_rates.MAX_ADDRESSES", 10)
    rates = ConnectionRates(config())
    rates.set(*rate_of("<default>", "5"))
    for number in range(50):
        rates.turn(PLAIN, f"10.0.0.{number}", 0.0)
    assert len(rates._addresses) == 10


async def test_rates_are_read_from_the_store() -> None:
    engine = Engine(system_runtime())
    await engine.start()
    store = EmbeddedStore(engine)
    for path in ("/config", "/config/users", "/config/clients", "/config/ips"):
        await store.create(path)
    value = b'{"version":1,"config":{"connection_creation_rate":"0"}}'
    await store.create("/config/ips/10.0.0.1", value)
    # Not its rate: users have none.
    await store.create("/config/users/10.0.0.2", value)
    rates = ConnectionRates(config())
    await rates.load_all(store)
    assert rates.turn(PLAIN, "10.0.0.2", 0.0) == Turn()
    assert rates.turn(PLAIN, HOST, 0.0).refusal is not None
    await store.delete("/config/ips/10.0.0.1")
    await rates.take(store, "ips/10.0.0.1")
    assert rates.turn(PLAIN, HOST, 0.0) == Turn()
    await engine.stop()
