"""How far a job is, from what Spark says about its micro-batches. No Spark and no clock here."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

_WINDOW_S = 10.0
_MAX_POINTS = 200


# Observed where Spark cannot count what a sink takes, and for rows that go nowhere.
ROWS_OUT = "ottla_rows_out"
LEFT_OUT = "ottla_left_out"


class StreamProgress:
    """Rows in and out, speed, lag and batch time of one query, also across restarts."""

    def __init__(self) -> None:
        self.rows_in = 0
        self.rows_out = 0
        # Rows that did not fit the schema and went nowhere.
        self.left_out = 0
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
        rows_in = rows_in_of(progress)
        rows_out = rows_out_of(progress)
        self.lag = lag_of(progress)
        is_new = self._last is None or self._last[0] != place[0] or self._last[1] < place[1]
        # While idle, Spark reports the batch that is to come, without rows, again and again. A
        # batch without input may still tell of windows that are over.
        if (rows_in == 0 and rows_out == 0) or not is_new:
            return
        self._last = place
        self.rows_in += rows_in
        self.rows_out += rows_out
        self.left_out += observed(progress, LEFT_OUT)
        self.batches += 1
        spent = progress.get("durationMs") or {}
        self.batch_s = float(spent.get("triggerExecution", 0)) / 1000
        self._points.append((now_s, rows_in))

    @property
    def last_batch(self) -> int:
        """The number of the last batch that was told, -1 for none."""
        return -1 if self._last is None else self._last[1]

    def rows_per_s(self, now_s: float) -> float:
        """Over the last seconds."""
        recent = [(at, rows) for at, rows in self._points if now_s - at <= _WINDOW_S]
        if not recent:
            return 0.0
        span = max(now_s - recent[0][0], self.batch_s or 0.0, 1.0)
        return sum(rows for _, rows in recent) / span


def rows_in_of(progress: Mapping[str, Any]) -> int:
    """Spark Connect tells the rows of each source, not their sum."""
    told = progress.get("numInputRows")
    if told is not None:
        return int(told)
    sources = progress.get("sources") or ()
    return sum(int(source.get("numInputRows") or 0) for source in sources)


def rows_out_of(progress: Mapping[str, Any]) -> int:
    """What the batch wrote, from the sink; of a function that takes batches, as observed."""
    sink = progress.get("sink") or {}
    told = int(sink.get("numOutputRows", -1))
    return told if told >= 0 else observed(progress, ROWS_OUT)


def observed(progress: Mapping[str, Any], name: str) -> int:
    """The sum of the observations of this name, or of several with a number after it. Spark
    Connect leaves the number out where nothing was observed."""
    metrics = progress.get("observedMetrics") or {}
    rows = [row for key, row in metrics.items() if key.startswith(name)]
    return sum(int(row["n"] or 0) for row in rows if "n" in row)


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """Records that the sources hold and the query has not read; None where Spark cannot say."""
    total: int | None = None
    for source in progress.get("sources") or ():
        lag = _source_lag(source)
        if lag is not None:
            total = lag if total is None else total + lag
    return total


def _source_lag(source: Mapping[str, Any]) -> int | None:
    latest, end = offsets_of(source.get("latestOffset")), offsets_of(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


def offsets_of(value: Any) -> dict[tuple[str, str], int] | None:
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
