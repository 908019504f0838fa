"""What clients use of their quotas, and how long they wait."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.quotas.clients import ClientQuotas, FetchAllowance, Spending, Use
from ottla.broker.quotas.entities import Entity
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def monotonic_ms(self) -> float:
        return self.ms

    def now_ms(self) -> int:
        return int(self.ms)


def quotas(clock: Hand, **settings: str) -> ClientQuotas:
    properties = {"broker.id": "0", "zookeeper.connect": "z:1", "log.dirs": "/nowhere"}
    properties |= {name.replace("_", "."): value for name, value in settings.items()}
    return ClientQuotas(clock, BrokerConfig.from_properties(properties))


def produce(size: int, client: str = "c", acks: int = -1, busy_ms: float = 0.0) -> Spending:
    return Spending("User:u", client, 0, m.ProduceRequest(acks=acks), size, busy_ms)


def fetch(client: str = "c", replica_id: int = -1) -> Spending:
    return Spending("User:u", client, 1, m.FetchRequest(replica_id=replica_id), 50)


def charge(
    manager: ClientQuotas,
    spent: Spending,
    response: Any,
    principal: str,
    error: Exception | None = None,
) -> int:
    return manager.charge(spent._replace(principal=principal), response, error)


def fetched(size: int) -> m.FetchResponse:
    response = m.FetchResponse
    data = response.PartitionData(partition_index=0, records=memoryview(bytes(size)))
    return response(responses=[response.FetchableTopicResponse(topic="t", partitions=[data])])


def test_nothing_is_measured_without_a_quota() -> None:
    clock = Hand()
    manager = quotas(clock)
    assert not manager.is_active
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100"})
    assert manager.is_active
    manager.set(Entity(None, "c"), {})
    assert not manager.is_active
    assert quotas(clock, quota_producer_default="5").is_active


def test_produced_bytes() -> None:
    clock = Hand()
    manager = quotas(clock)
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100"})
    response = m.ProduceResponse()
    assert charge(manager, produce(1000), response, "User:ANONYMOUS") == 0
    assert charge(manager, produce(1000), response, "User:ANONYMOUS") == 10_000
    assert response.throttle_time_ms == 10_000
    assert charge(manager, produce(1000, "other"), m.ProduceResponse(), "User:ANONYMOUS") == 0
    clock.ms += 11_000
    assert charge(manager, produce(900), m.ProduceResponse(), "User:ANONYMOUS") == 0


def test_fetched_bytes_of_consumers_only() -> None:
    manager = quotas(Hand())
    manager.set(Entity("<default>", None), {"consumer_byte_rate": "100"})
    assert charge(manager, fetch(replica_id=1), fetched(50_000), "User:u") == 0
    response = fetched(1100)
    assert charge(manager, fetch(), response, "User:u") == response.throttle_time_ms == 1_000
    # Clients of one user share what the user has.
    assert charge(manager, fetch("other"), fetched(0), "User:u") == 1_000
    assert charge(manager, fetch("other"), fetched(0), "User:v") == 0


def test_a_fetch_takes_no_more_than_its_windows_hold() -> None:
    clock = Hand()
    manager = quotas(clock)
    assert manager.before_fetch("User:u", "c") == FetchAllowance()
    manager.set(Entity(None, "c"), {"consumer_byte_rate": "100"})
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1000, 0)
    assert charge(manager, fetch(), fetched(900), "User:u") == 0
    assert manager.before_fetch("User:u", "c") == FetchAllowance(100, 0)
    # A batch that takes it far above the rate goes out; what comes next gets nothing until all of
    # it is paid off, which is later than the windows end.
    assert charge(manager, fetch(), fetched(1000), "User:u") == 19_000
    for _ in range(100):
        assert manager.before_fetch("User:u", "c") == FetchAllowance(0, 19_000)
        empty = m.FetchResponse(throttle_time_ms=19_000)
        assert charge(manager, fetch(), empty, "User:u") == 19_000
    clock.ms += 18_000
    assert manager.before_fetch("User:u", "c") == FetchAllowance(0, 1_000)
    clock.ms += 1_000
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1000, 0)
    assert charge(manager, fetch(), fetched(5000), "User:u") == 50_000
    manager.set(Entity(None, "c"), {"consumer_byte_rate": "500"})
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1, 0), "by the new limit"
    assert manager.before_fetch("User:u", None).max_bytes > 1 << 30, "no id, no quota of ids"


def test_use_without_a_quota_counts_once_there_is_one() -> None:
    """As in Kafka, as long as anybody has a quota of the kind."""
    manager = quotas(Hand())
    assert charge(manager, produce(5000), m.ProduceResponse(), "User:u") == 0
    manager.set(Entity(None, "other"), {"producer_byte_rate": "100"})
    assert charge(manager, produce(2000), m.ProduceResponse(), "User:u") == 0
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100"})
    assert charge(manager, produce(0), m.ProduceResponse(), "User:u") == 10_000


def test_many_clients_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.quotas.clients.MAX_CLIENTS", 10)
    manager = quotas(Hand())
    manager.set(Entity(None, "<default>"), {"producer_byte_rate": "100"})
    assert charge(manager, produce(2000, "first"), m.ProduceResponse(), "User:u") == 10_000
    for number in range(50):
        charge(manager, produce(1, f"c{number}"), m.ProduceResponse(), "User:u")
    assert len(manager._meters) == 10
    assert charge(manager, produce(0, "first"), m.ProduceResponse(), "User:u") == 0, "forgotten"


def test_failures_take_time_too() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", None), {"request_percentage": "1"})
    refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    from_broker = Spending("User:u", "c", 7, m.ControlledShutdownRequest(), 1, 200.0)
    assert charge(manager, from_broker, None, "User:u") == 0
    assert charge(manager, from_broker, None, "User:u", KafkaError(ErrorCode.INVALID_REQUEST)) == 0
    # Whoever is not allowed to send what brokers send is no broker.
    assert charge(manager, from_broker, None, "User:u", refused) == 1000


def test_time_of_the_broker() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", "c"), {"request_percentage": "1"})
    spent = produce(1, busy_ms=105.0)
    assert charge(manager, spent, m.ProduceResponse(), "User:u") == 500
    busy = produce(1, busy_ms=5000.0)
    assert charge(manager, busy, m.ProduceResponse(), "User:u") == 1000, "one window at most"
    assert charge(manager, produce(1, acks=0, busy_ms=1e6), None, "User:u") == 0


def test_static_default_counts_last() -> None:
    manager = quotas(Hand(), quota_producer_default="100")
    assert charge(manager, produce(2000), m.ProduceResponse(), "User:u") == 10_000
    manager.set(Entity(None, "c"), {"producer_byte_rate": "1000000"})
    assert charge(manager, produce(2000), m.ProduceResponse(), "User:u") == 0


def test_time_after_the_answer_counts_next() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", None), {"request_percentage": "1"})
    spent = produce(1, busy_ms=50.0)
    assert charge(manager, spent, m.ProduceResponse(), "User:u") == 0
    manager.add_time(spent._replace(busy_ms=100.0))
    manager.add_time(produce(1, acks=0)._replace(busy_ms=1e6))  # goes free
    assert charge(manager, produce(1), m.ProduceResponse(), "User:u") == 1000
    assert manager.uses()[0].rate == 1.5


def test_silent_clients_are_forgotten() -> None:
    clock = Hand()
    manager = quotas(clock)
    manager.set(Entity(None, "<default>"), {"producer_byte_rate": "100"})
    charge(manager, produce(1, "early"), m.ProduceResponse(), "User:u")
    clock.ms += 3_599_000
    charge(manager, produce(1, "late"), m.ProduceResponse(), "User:u")
    assert len(manager.uses()) == 2
    clock.ms += 1_000
    assert [use.owner.client for use in manager.uses()] == ["late"]
    manager.set(Entity(None, "<default>"), {})
    assert manager.uses() == []


def test_what_is_used_can_be_watched() -> None:
    manager = quotas(Hand())
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100", "request_percentage": "1"})
    charge(manager, produce(2000, busy_ms=300.0), m.ProduceResponse(), "User:u")
    owner = Entity(None, "c")
    assert manager.uses() == [
        Use("producer_byte_rate", owner, 200.0, 10_000),
        Use("request_percentage", owner, 3.0, 1_000),
    ]
