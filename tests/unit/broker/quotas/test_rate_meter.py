"""Rates over windows, and waits."""

from __future__ import annotations

import pytest

from ottla.broker.quotas.rate_meter import RateMeter, Window, throttle_ms


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
