"""Families in pieces are the same text as families in one."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ottla.broker.metrics.export import STEP, text_in_steps


class Families(Collector):
    """Sizes of topics, in one family or in many pieces of it."""

    def __init__(self, topics: int, pieces: int) -> None:
        self.topics, self.pieces = topics, pieces

    def collect(self) -> Iterator[Metric]:
        step = -(-self.topics // self.pieces)
        for start in range(0, self.topics, step):
            size = GaugeMetricFamily("size", "Bytes", labels=["topic"])
            seen = CounterMetricFamily("seen", "Records", labels=["topic"])
            for number in range(start, min(start + step, self.topics)):
                size.add_metric([f"t{number}"], number)
                seen.add_metric([f't"{number}\n'], number)
            yield from (size, seen)
        yield GaugeMetricFamily("nothing", "No sample", labels=["topic"])
        times = HistogramMetricFamily("times", "Milliseconds", labels=["request"])
        times.add_metric(["Fetch"], [("1", 2), ("+Inf", 3)], 7)
        yield times


def test_pieces_come_together_in_short_steps() -> None:
    steps = text_in_steps(Families(5 * STEP + 3, pieces=2))
    taken = 0
    try:
        while True:
            next(steps)
            taken += 1
    except StopIteration as done:
        text = done.value
    assert taken >= 12
    assert text == generate_latest(Families(5 * STEP + 3, pieces=1))
