"""Requests per second from what one of them costs."""

from __future__ import annotations

import pytest

from ottla.bench.connections.model import requests_per_s


@pytest.mark.parametrize(
    ("cores", "brokers", "broker_us", "load_us", "expected"),
    [
        # A broker has one thread that serves: more cores do not help it.
        (8, 1, 50.0, 0.0, 20_000),
        (8, 8, 50.0, 0.0, 160_000),
        # More brokers than cores share the cores.
        (2, 3, 50.0, 0.0, 40_000),
        # A load on the same machine takes its part of them.
        (2, 3, 40.0, 10.0, 40_000),
        (2, 1, 40.0, 10.0, 25_000),
        # A load of one thread is the limit at last.
        (64, 64, 40.0, 10.0, 100_000),
    ],
)
def test_the_least_limit_counts(
    cores: int, brokers: int, broker_us: float, load_us: float, expected: float
) -> None:
    assert requests_per_s(cores, brokers, broker_us, load_us) == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [(0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0), (1, 1, 1.0, -1.0)])
def test_what_cannot_be(wrong: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="costs something"):
        requests_per_s(*wrong)
