"""Rates over windows, waits, and whom a quota is for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ottla.broker.handlers import ROUTES_BY_KEY, load
from ottla.broker.quotas.clients import (
    ClientQuotas,
    FetchAllowance,
    RateMeter,
    Use,
    Window,
    throttle_ms,
)
from ottla.broker.quotas.mutations import Entity
from ottla.broker.quotas.stored import (
    CLIENT_ID,
    IP,
    USER,
    Component,
    check_filter,
    entity_of,
    is_wanted,
    named,
    path_of,
    value_text,
)
from ottla.broker.requests.dispatch import Call
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m
from ottla.wire.framing import RequestHeader


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


def produce(size: int, client: str = "c", acks: int = -1, busy_ms: float = 0.0) -> Call:
    header = RequestHeader(0, 7, 1, client)
    loaded = load(ROUTES_BY_KEY[0])
    return Call(loaded, m.ProduceRequest(acks=acks), header, 7, 1, size_bytes=size, busy_ms=busy_ms)


def fetch(client: str = "c", replica_id: int = -1) -> Call:
    header = RequestHeader(1, 11, 1, client)
    return Call(
        load(ROUTES_BY_KEY[1]), m.FetchRequest(replica_id=replica_id), header, 11, 1, size_bytes=50
    )


def fetched(size: int) -> m.FetchResponse:
    response = m.FetchResponse
    data = response.PartitionData(partition_index=0, records=memoryview(bytes(size)))
    return response(responses=[response.FetchableTopicResponse(topic="t", partitions=[data])])


def test_a_new_client_is_measured_as_if_it_had_been_silent() -> None:
    meter = RateMeter(Window(11, 1000.0))
    meter.record(1000, 0.0)
    assert meter.measure(0.0) == (100.0, 10_000.0)
    assert meter.measure(500.0) == (pytest.approx(1000 / 10.5), 10_500.0)
    meter.record(1000, 5000.0)
    assert meter.measure(5000.0) == (200.0, 10_000.0)


def test_old_samples_leave() -> None:
    meter = RateMeter(Window(3, 1000.0))
    for second in range(6):
        meter.record(300, second * 1000.0)
    rate, covered_ms = meter.measure(5999.0)
    assert covered_ms == 2999.0 and rate == pytest.approx(900 / 2.999)
    assert meter.measure(60_000.0)[0] == 0.0


def test_waits_bring_the_rate_down_to_the_limit() -> None:
    assert throttle_ms(100.0, 100.0, 10_000.0) == 0
    assert throttle_ms(150.0, 100.0, 10_000.0) == 5_000
    meter = RateMeter(Window())
    for second in range(11):
        meter.record(150, second * 1000.0)
    wait_ms = throttle_ms(*_with_limit(meter, 100.0, 10_000.0))
    assert wait_ms == 6_500
    assert throttle_ms(*_with_limit(meter, 100.0, 10_000.0 + wait_ms)) == 0


def _with_limit(meter: RateMeter, limit: float, now_ms: float) -> tuple[float, float, float]:
    rate, covered_ms = meter.measure(now_ms)
    return rate, limit, covered_ms


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
    assert manager.charge(produce(1000), response, "User:ANONYMOUS") == 0
    assert manager.charge(produce(1000), response, "User:ANONYMOUS") == 10_000
    assert response.throttle_time_ms == 10_000
    assert manager.charge(produce(1000, "other"), m.ProduceResponse(), "User:ANONYMOUS") == 0
    clock.ms += 11_000
    assert manager.charge(produce(900), m.ProduceResponse(), "User:ANONYMOUS") == 0


def test_fetched_bytes_of_consumers_only() -> None:
    manager = quotas(Hand())
    manager.set(Entity("<default>", None), {"consumer_byte_rate": "100"})
    assert manager.charge(fetch(replica_id=1), fetched(50_000), "User:u") == 0
    response = fetched(1100)
    assert manager.charge(fetch(), response, "User:u") == response.throttle_time_ms == 1_000
    # Clients of one user share what the user has.
    assert manager.charge(fetch("other"), fetched(0), "User:u") == 1_000
    assert manager.charge(fetch("other"), fetched(0), "User:v") == 0


def test_a_fetch_takes_no_more_than_its_windows_hold() -> None:
    clock = Hand()
    manager = quotas(clock)
    assert manager.before_fetch("User:u", "c") == FetchAllowance()
    manager.set(Entity(None, "c"), {"consumer_byte_rate": "100"})
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1000, 0)
    assert manager.charge(fetch(), fetched(900), "User:u") == 0
    assert manager.before_fetch("User:u", "c") == FetchAllowance(100, 0)
    # A batch that takes it far above the rate goes out; what comes next gets nothing until all of
    # it is paid off, which is later than the windows end.
    assert manager.charge(fetch(), fetched(1000), "User:u") == 19_000
    for _ in range(100):
        assert manager.before_fetch("User:u", "c") == FetchAllowance(0, 19_000)
        empty = m.FetchResponse(throttle_time_ms=19_000)
        assert manager.charge(fetch(), empty, "User:u") == 19_000
    clock.ms += 18_000
    assert manager.before_fetch("User:u", "c") == FetchAllowance(0, 1_000)
    clock.ms += 1_000
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1000, 0)
    assert manager.charge(fetch(), fetched(5000), "User:u") == 50_000
    manager.set(Entity(None, "c"), {"consumer_byte_rate": "500"})
    assert manager.before_fetch("User:u", "c") == FetchAllowance(1, 0), "by the new limit"
    assert manager.before_fetch("User:u", None).max_bytes > 1 << 30, "no id, no quota of ids"


def test_use_without_a_quota_counts_once_there_is_one() -> None:
    """As in Kafka, as long as anybody has a quota of the kind."""
    manager = quotas(Hand())
    assert manager.charge(produce(5000), m.ProduceResponse(), "User:u") == 0
    manager.set(Entity(None, "other"), {"producer_byte_rate": "100"})
    assert manager.charge(produce(2000), m.ProduceResponse(), "User:u") == 0
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100"})
    assert manager.charge(produce(0), m.ProduceResponse(), "User:u") == 10_000


def test_many_clients_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.quotas.clients.MAX_CLIENTS", 10)
    manager = quotas(Hand())
    manager.set(Entity(None, "<default>"), {"producer_byte_rate": "100"})
    assert manager.charge(produce(2000, "first"), m.ProduceResponse(), "User:u") == 10_000
    for number in range(50):
        manager.charge(produce(1, f"c{number}"), m.ProduceResponse(), "User:u")
    assert len(manager._meters) == 10
    assert manager.charge(produce(0, "first"), m.ProduceResponse(), "User:u") == 0, "forgotten"


def test_failures_take_time_too() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", None), {"request_percentage": "1"})
    refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    from_broker = Call(
        load(ROUTES_BY_KEY[7]),
        m.ControlledShutdownRequest(),
        RequestHeader(7, 3, 1, "c"),
        3,
        1,
        size_bytes=1,
        busy_ms=200.0,
    )
    assert manager.charge(from_broker, None, "User:u") == 0
    assert manager.charge(from_broker, None, "User:u", KafkaError(ErrorCode.INVALID_REQUEST)) == 0
    # Whoever is not allowed to send what brokers send is no broker.
    assert manager.charge(from_broker, None, "User:u", refused) == 1000


def test_time_of_the_broker() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", "c"), {"request_percentage": "1"})
    call = produce(1, busy_ms=105.0)
    assert manager.charge(call, m.ProduceResponse(), "User:u") == 500
    busy = produce(1, busy_ms=5000.0)
    assert manager.charge(busy, m.ProduceResponse(), "User:u") == 1000, "one window at most"
    assert manager.charge(produce(1, acks=0, busy_ms=1e6), None, "User:u") == 0


def test_static_default_counts_last() -> None:
    manager = quotas(Hand(), quota_producer_default="100")
    assert manager.charge(produce(2000), m.ProduceResponse(), "User:u") == 10_000
    manager.set(Entity(None, "c"), {"producer_byte_rate": "1000000"})
    assert manager.charge(produce(2000), m.ProduceResponse(), "User:u") == 0


def test_names_in_requests_and_in_paths() -> None:
    entity = entity_of([(USER, "a/b"), (CLIENT_ID, None)])
    assert entity == Entity("a%2Fb", "<default>")
    assert named(entity) == [(USER, "a/b"), (CLIENT_ID, None)]
    assert path_of(entity) == "users/a%2Fb/clients/<default>"
    assert path_of(entity_of([(CLIENT_ID, "c")])) == "clients/c"
    assert named(entity_of([(IP, "::1")])) == [(IP, "::1")]
    assert path_of(entity_of([(IP, None)])) == "ips/<default>"
    for wrong in (
        [],
        [(IP, "1.2.3.4"), (USER, "u")],
        [(IP, "nowhere")],
        [("x", "y")],
        [(USER, "")],
        [(USER, "a"), (USER, "b")],
    ):
        with pytest.raises(KafkaError) as raised:
            entity_of(wrong)
        assert raised.value.code is ErrorCode.INVALID_REQUEST


U, C, UC = Entity("u", None), Entity(None, "c"), Entity("u", "<default>")
ADDRESS = Entity(None, None, "1.2.3.4")


def test_values() -> None:
    assert value_text(C, "producer_byte_rate", 1024.0) == "1024"
    assert value_text(C, "request_percentage", 50) == "50.0"
    assert value_text(ADDRESS, "connection_creation_rate", 5) == "5"
    for key, value in (
        ("producer_byte_rate", 1.5),
        ("producer_byte_rate", math.inf),
        ("producer_byte_rate", math.nan),
        ("producer_byte_rate", 1e30),
        ("producer_byte_rate", 0.0),
        ("request_percentage", math.nan),
        ("request_percentage", math.inf),
        ("request_percentage", -1.0),
        ("connection_creation_rate", 1.0),
        ("nope", 1.0),
    ):
        with pytest.raises(KafkaError):
            value_text(C, key, value)
    for key, value in (
        ("producer_byte_rate", 1.0),
        ("connection_creation_rate", 5.5),
        ("connection_creation_rate", 1e10),
    ):
        with pytest.raises(KafkaError):
            value_text(ADDRESS, key, value)


@pytest.mark.parametrize(
    ("components", "strict", "wanted"),
    [
        ([], False, [U, C, UC, ADDRESS]),
        ([], True, []),
        ([Component(USER, 0, "u")], False, [U, UC]),
        ([Component(USER, 0, "u")], True, [U]),
        ([Component(USER, 2, None), Component(CLIENT_ID, 1, None)], True, [UC]),
        ([Component(CLIENT_ID, 2, None)], False, [C, UC]),
        ([Component(CLIENT_ID, 0, "other")], False, []),
        ([Component(IP, 2, None)], False, [ADDRESS]),
        ([Component(IP, 0, "1.2.3.4")], True, [ADDRESS]),
        ([Component(IP, 1, None)], True, []),
    ],
)
def test_filters(components: list[Component], strict: bool, wanted: list[Entity]) -> None:
    checked = check_filter(components)
    assert [e for e in (U, C, UC, ADDRESS) if is_wanted(e, checked, strict=strict)] == wanted


def test_wrong_filters() -> None:
    wrong: list[list[Any]] = [
        [Component("", 2, None)],
        [Component(USER, 3, None)],
        [Component(USER, 0, None)],
        [Component(USER, 1, "u")],
        [Component(USER, 2, None), Component(USER, 1, None)],
        [Component(USER, 2, None), Component(IP, 2, None)],
        [Component("planet", 2, None)],
    ]
    for components in wrong:
        with pytest.raises(KafkaError):
            check_filter(components)


def test_time_after_the_answer_counts_next() -> None:
    manager = quotas(Hand())
    manager.set(Entity("u", None), {"request_percentage": "1"})
    call = produce(1, busy_ms=50.0)
    assert manager.charge(call, m.ProduceResponse(), "User:u") == 0
    manager.add_time(call, "User:u", 100.0)
    manager.add_time(produce(1, acks=0), "User:u", 1e6)  # goes free
    assert manager.charge(produce(1), m.ProduceResponse(), "User:u") == 1000
    assert manager.uses()[0].rate == 1.5


def test_silent_clients_are_forgotten() -> None:
    clock = Hand()
    manager = quotas(clock)
    manager.set(Entity(None, "<default>"), {"producer_byte_rate": "100"})
    manager.charge(produce(1, "early"), m.ProduceResponse(), "User:u")
    clock.ms += 3_599_000
    manager.charge(produce(1, "late"), m.ProduceResponse(), "User:u")
    assert len(manager.uses()) == 2
    clock.ms += 1_000
    assert [use.owner.client for use in manager.uses()] == ["late"]
    manager.set(Entity(None, "<default>"), {})
    assert manager.uses() == []


def test_what_is_used_can_be_watched() -> None:
    manager = quotas(Hand())
    manager.set(Entity(None, "c"), {"producer_byte_rate": "100", "request_percentage": "1"})
    manager.charge(produce(2000, busy_ms=300.0), m.ProduceResponse(), "User:u")
    owner = Entity(None, "c")
    assert manager.uses() == [
        Use("producer_byte_rate", owner, 200.0, 10_000),
        Use("request_percentage", owner, 3.0, 1_000),
    ]
