"""What a request costs its client, and what operators see of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.handlers import ROUTES_BY_KEY, load
from ottla.broker.metrics.counts import RequestMetrics
from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.entities import Entity
from ottla.broker.requests.accounting import Bill, asked_wait_ms, open_bill
from ottla.broker.requests.dispatch import Call
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire import messages as m
from ottla.wire.framing import RequestHeader

METADATA = 3


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000_000.0

    def monotonic_ms(self) -> float:
        return self.ms


class Rig:
    def __init__(self, *, metrics: bool = False, **limits: str) -> None:
        self.clock = Hand()
        properties = {"broker.id": "0", "zookeeper.connect": "z:1", "log.dirs": "/nowhere"}
        config = BrokerConfig.from_properties(properties)
        self.quotas = ClientQuotas(cast("Any", self.clock), config)
        self.quotas.set(Entity("u", None), limits)
        self.metrics = RequestMetrics() if metrics else None
        self.services: Any = SimpleNamespace(
            runtime=SimpleNamespace(clock=self.clock),
            client_quotas=self.quotas,
            request_metrics=self.metrics,
        )

    def open(self, size: int = 100) -> Bill | None:
        return open_bill(self.services, size, "User:u")

    async def handler(self, *steps_ms: float) -> m.MetadataResponse:
        for step_ms in steps_ms:
            self.clock.ms += step_ms
            await asyncio.sleep(0)
        return m.MetadataResponse()

    def call(self, *steps_ms: float, api_key: int = METADATA) -> Call:
        header = RequestHeader(api_key, 9, 1, "c")
        loaded, running = load(ROUTES_BY_KEY[api_key]), self.handler(*steps_ms)
        return Call(loaded, loaded.request_class(), header, 9, 1, running)

    @property
    def used_percent(self) -> float:
        (use,) = self.quotas.uses()
        return use.rate


def opened(bill: Bill | None) -> Bill:
    assert bill is not None
    return bill


def test_where_nobody_counts_there_is_no_bill() -> None:
    assert Rig().open() is None
    assert Rig(metrics=True).open() is not None
    assert Rig(request_percentage="1").open() is not None


def test_handlers_may_ask_for_a_wait_of_their_own() -> None:
    assert asked_wait_ms(None) == asked_wait_ms(m.MetadataResponse()) == 0
    assert asked_wait_ms(m.CreateTopicsResponse(throttle_time_ms=7)) == 7
    bill = opened(Rig(metrics=True).open())
    assert bill.charge(m.CreateTopicsResponse(throttle_time_ms=7)) == 7


async def test_reading_steps_and_encoding_are_paid_for_and_waits_are_not() -> None:
    rig = Rig(request_percentage="100")
    bill = opened(rig.open())
    rig.clock.ms += 10  # decoding
    running = bill.run(rig.call(20, 30))
    task = asyncio.ensure_future(running)
    await asyncio.sleep(0)
    rig.clock.ms += 5_000  # somebody else's turn
    response = await task
    assert bill.charge(response) == 0
    assert rig.used_percent == pytest.approx((10 + 20 + 30) / 10 / 10, abs=1e-6)
    rig.clock.ms += 40  # encoding
    bill.close(response)
    assert rig.used_percent == pytest.approx(100 / 10 / 10, rel=0.01)


async def test_a_client_pays_once_also_where_its_answer_cannot_be_encoded() -> None:
    rig = Rig(producer_byte_rate="100", request_percentage="100")
    bill = opened(rig.open(2_000))
    call = rig.call(api_key=0)
    bill.run(call)
    call.running.close()
    response = m.ProduceResponse()
    assert bill.charge(response) == response.throttle_time_ms == 10_000
    assert bill.fail(ValueError()) == 0


async def test_a_quota_that_is_taken_away_meanwhile_costs_nothing() -> None:
    rig = Rig(request_percentage="1")
    bill = opened(rig.open())
    running = bill.run(rig.call(5_000))
    response = await running
    rig.quotas.set(Entity("u", None), {})
    assert bill.charge(response) == 0
    bill.close(response)
    assert rig.quotas.uses() == []


async def test_a_request_of_an_unknown_version_is_nobodys() -> None:
    rig = Rig(request_percentage="1")
    bill = opened(rig.open())
    call = rig.call(5_000)
    call.header = None
    assert bill.run(call) is call.running
    response = await call.running
    assert bill.charge(response) == 0
    bill.close(response)
    assert rig.quotas.uses() == []


async def test_operators_see_answers_and_failures() -> None:
    rig = Rig(metrics=True)
    bill = opened(rig.open())
    rig.clock.ms += 1_000  # decoding is not its time
    call = rig.call(3)
    assert bill.run(call) is call.running, "not measured: nobody pays"
    bill.close(await call.running)
    for error in (KafkaError(ErrorCode.INVALID_REQUEST), ValueError()):
        bill = opened(rig.open())
        call = rig.call()
        bill.run(call)
        call.running.close()
        assert bill.fail(error) == 0
    assert rig.metrics is not None
    api = rig.metrics.apis["Metadata"]
    assert api.by_version == {9: 3} and api.total_ms == 3.0
    assert api.errors == {
        ErrorCode.INVALID_REQUEST: 1,
        ErrorCode.UNKNOWN_SERVER_ERROR: 1,
    }
