"""Rates over windows of time, and the waits that bring them down to a limit."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Window(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds` each."""

    samples: int = 11
    sample_ms: float = 1000.0


class RateMeter:
    """Kafka's Rate over SampledStat: a sum over the last windows, by the time they cover."""

    __slots__ = ("_samples", "_window", "held_until_ms", "last_ms", "waited_ms")

    def __init__(self, window: Window) -> None:
        self._window = window
        # Nothing more before then, where so much was used at once that the samples are gone sooner
        # than it is paid off.
        self.held_until_ms = 0.0
        self.last_ms = 0.0
        # All waits that came of it.
        self.waited_ms = 0
        # When each sample began, and its sum; the newest one last.
        self._samples: deque[list[float]] = deque(maxlen=window.samples)

    def record(self, value: float, now_ms: float) -> None:
        self.last_ms = now_ms
        if not self._samples or now_ms - self._samples[-1][0] >= self._window.sample_ms:
            self._samples.append([now_ms, 0.0])
        self._samples[-1][1] += value

    def measure(self, now_ms: float) -> tuple[float, float]:
        """The rate per second, and the time in milliseconds that it was taken over."""
        samples, sample_ms = self._window
        while self._samples and now_ms - self._samples[0][0] >= samples * sample_ms:
            self._samples.popleft()
        if not self._samples:
            return 0.0, samples * sample_ms
        covered_ms = now_ms - self._samples[0][0]
        # A client that has just begun is measured as if it had been silent before.
        missing = samples - 1 - covered_ms // sample_ms
        if missing > 0:
            covered_ms += missing * sample_ms
        covered_ms = max(covered_ms, sample_ms)
        return sum(value for _, value in self._samples) / covered_ms * 1000, covered_ms

    def paid_off_ms(self, limit: float) -> float:
        """When all that the samples hold was within the limit."""
        if not self._samples:
            return 0.0
        return self._samples[0][0] + sum(value for _, value in self._samples) / limit * 1000


def throttle_ms(rate: float, limit: float, covered_ms: float) -> int:
    """How long to be silent until the rate is down at the limit (QuotaUtils.throttleTime)."""
    if rate <= limit:
        return 0
    return round((rate - limit) / limit * covered_ms)
