from __future__ import annotations

from ottla.console.rates import NO_RATE, POINTS, Rate, Rates, Sample


def test_a_rate_needs_two_samples() -> None:
    rates = Rates()
    assert rates.add(Sample(0, 1, 0, 0)) == NO_RATE
    assert rates.add(Sample(2_000, 1, 4_000, 1_000)) == Rate(2_000.0, 500.0)


def test_counters_that_began_anew_and_logs_that_shrank_tell_nothing() -> None:
    rates = Rates()
    rates.add(Sample(0, 1, 5_000, None))
    assert rates.add(Sample(1_000, 2, 9_000, None)) == NO_RATE
    assert rates.add(Sample(2_000, 2, 8_000, None)) == NO_RATE
    assert rates.add(Sample(3_000, 2, 8_500, None)) == Rate(500.0, None)


def test_two_samples_of_one_moment_and_a_clock_that_went_back() -> None:
    rates = Rates()
    rates.add(Sample(1_000, 1, 0, 0))
    assert rates.add(Sample(1_000, 1, 9, 9)) == NO_RATE
    assert rates.add(Sample(500, 1, 99, 99)) == NO_RATE


def test_a_broker_that_did_not_answer_leaves_a_gap() -> None:
    rates = Rates()
    rates.add(Sample(0, 1, 0, 0))
    assert rates.add(None) == NO_RATE
    assert rates.add(Sample(2_000, 1, 2_000, 0)) == NO_RATE
    assert rates.add(Sample(3_000, 1, 3_000, 0)) == Rate(1_000.0, 0.0)


def test_the_history_is_bounded() -> None:
    rates = Rates()
    for second in range(3 * POINTS):
        rates.add(Sample(second * 1000, 1, second, second))
    assert len(rates.history) == POINTS
