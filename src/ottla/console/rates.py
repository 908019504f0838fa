"""Bytes per second of each broker, from counters that only grow, or from the sizes of its logs."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

POINTS = 60  # of a sparkline


class Sample(NamedTuple):
    """`began` tells one life of a broker from the next: its counters begin anew."""

    at_ms: float
    began: float
    bytes_in: int
    bytes_out: int | None


class Rate(NamedTuple):
    bytes_in: float | None
    bytes_out: float | None


NO_RATE = Rate(None, None)


class Rates:
    """Of one broker: the last sample, and the rates of a few minutes."""

    def __init__(self) -> None:
        self._last: Sample | None = None
        self.history: deque[Rate] = deque(maxlen=POINTS)

    def add(self, sample: Sample | None) -> Rate:
        """None leaves a gap: the broker did not answer."""
        last, self._last = self._last, sample
        rate = NO_RATE
        if sample is not None and last is not None:
            rate = _between(last, sample)
        if last is not None or sample is not None:
            self.history.append(rate)
        return rate


def _between(old: Sample, new: Sample) -> Rate:
    seconds = (new.at_ms - old.at_ms) / 1000
    if seconds <= 0 or new.began != old.began:
        return NO_RATE
    return Rate(
        _growth(old.bytes_in, new.bytes_in, seconds), _growth(old.bytes_out, new.bytes_out, seconds)
    )


def _growth(old: int | None, new: int | None, seconds: float) -> float | None:
    """Logs shrink when old segments go: then nothing is known."""
    if old is None or new is None or new < old:
        return None
    return round((new - old) / seconds, 1)
