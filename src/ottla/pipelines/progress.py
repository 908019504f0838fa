"""How far a job is, from what Spark says about its micro-batches. No Spark and no clock here."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

_WINDOW_S = 10.0
_MAX_POINTS = 200


class StreamProgress:
    """Rows, speed, lag and batch time of one query, also across restarts."""

    def __init__(self) -> None:
        self.rows = 0
        self.batches = 0
        self.lag: int | None = None
        self.batch_s: float | None = None
        self._last: tuple[str, int] | None = None
        self._points: deque[tuple[float, int]] = deque(maxlen=_MAX_POINTS)

    def has_gap(self, progress: Mapping[str, Any]) -> bool:
        """True if batches were finished that nobody has told this object about."""
        if self._last is None or self._last[0] != progress.get("runId"):
            return int(progress.get("batchId", 0)) > 0
        return int(progress.get("batchId", 0)) > self._last[1] + 1

    def absorb(self, progress: Mapping[str, Any], now_s: float) -> None:
        """Takes one report; the same one may come again."""
        place = (str(progress.get("runId")), int(progress.get("batchId", 0)))
        rows = int(progress.get("numInputRows") or 0)
        self.lag = lag_of(progress)
        is_new = self._last is None or self._last[0] != place[0] or self._last[1] < place[1]
        # While idle, Spark reports the batch that is to come, without rows, again and again.
        if rows == 0 or not is_new:
            return
        self._last = place
        self.rows += rows
        self.batches += 1
        spent = progress.get("durationMs") or {}
        self.batch_s = float(spent.get("triggerExecution", 0)) / 1000
        self._points.append((now_s, rows))

    def rows_per_s(self, now_s: float) -> float:
        """Over the last seconds."""
        recent = [(at, rows) for at, rows in self._points if now_s - at <= _WINDOW_S]
        if not recent:
            return 0.0
        span = max(now_s - recent[0][0], self.batch_s or 0.0, 1.0)
        return sum(rows for _, rows in recent) / span


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """Records that the sources hold and the query has not read; None where Spark cannot say."""
    total: int | None = None
    for source in progress.get("sources") or ():
        lag = _source_lag(source)
        if lag is not None:
            total = lag if total is None else total + lag
    return total


def _source_lag(source: Mapping[str, Any]) -> int | None:
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    """`{"topic": {"0": 12}}`, as text or parsed, by topic and partition. `format("ottla")` has
    the topic's id beside: `{"topic": {"id": …, "partitions": {"0": 12}}}`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping):
        return None
    found = {}
    for topic, partitions in value.items():
        if isinstance(partitions, Mapping) and "partitions" in partitions:
            partitions = partitions["partitions"]
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if not isinstance(offset, int):
                return None
            found[str(topic), str(partition)] = offset
    return found
