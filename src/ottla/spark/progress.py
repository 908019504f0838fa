"""What a streaming query's progress says about its topics: an entry of `query.recentProgress`.

Python sources have no metrics of their own in it, so the numbers that the official connector puts
there are counted here, from the offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.spark.errors import OffsetError
from ottla.spark.source import offsets as o
from ottla.types import TopicPartition


class PartitionProgress(NamedTuple):
    """One partition at the end of the micro-batch. `start` is None where it is new, `latest` where
    Spark did not ask: before 4.2."""

    topic: str
    partition: int
    start: int | None
    end: int
    latest: int | None

    @property
    def lag(self) -> int | None:
        """Records that were there and not yet read."""
        return None if self.latest is None else max(self.latest - self.end, 0)


def partitions(progress: Mapping[str, Any]) -> list[PartitionProgress]:
    """Those of all sources of format ottla, in order."""
    return [one for source in progress["sources"] for one in _partitions_of(source)]


def lag(progress: Mapping[str, Any]) -> int | None:
    """Records that were there and not yet read at the end of the micro-batch, over all sources of
    format ottla. None where nobody knows: Spark before 4.2, or no such source."""
    known = _lags(progress)
    return sum(known) if known else None


def offsets_behind(progress: Mapping[str, Any]) -> dict[str, float]:
    """The official connector's metrics of a source (KafkaMicroBatchStream.metrics), by its names;
    empty where nobody knows."""
    known = _lags(progress)
    if not known:
        return {}
    return {
        "minOffsetsBehindLatest": min(known),
        "maxOffsetsBehindLatest": max(known),
        "avgOffsetsBehindLatest": sum(known) / len(known),
    }


def _lags(progress: Mapping[str, Any]) -> list[int]:
    return [one.lag for one in partitions(progress) if one.lag is not None]


def _partitions_of(source: Mapping[str, Any]) -> list[PartitionProgress]:
    end, start, latest = (
        _offsets(source.get(name)) for name in ("endOffset", "startOffset", "latestOffset")
    )
    if end is None:
        return []
    # Of a topic that was made again, and of a partition that came since, nothing has been read.
    begun, read = _of_same_topics(start, end), _of_same_topics(end, latest)
    newest = _of_same_topics(latest, None)
    return [
        PartitionProgress(
            *place,
            begun.get(place),
            read.get(place, 0),
            None if latest is None else newest.get(place),
        )
        for place in sorted({*(p for p, _ in o.iter_partitions(end)), *newest})
    ]


def _of_same_topics(
    offsets: o.Offsets | None, other: o.Offsets | None
) -> dict[TopicPartition, int]:
    """Without topics that are not those of the same name in `other`."""
    return {
        place: offset
        for place, offset in o.iter_partitions(offsets or {})
        if not other
        or place.topic not in other
        or o.same_topic((offsets or {})[place.topic].topic_id, other[place.topic].topic_id)
    }


def _offsets(value: Any) -> o.Offsets | None:
    """None for what another source, or none, has written."""
    try:
        return o.from_json(json.loads(value) if isinstance(value, str) else value)
    except (OffsetError, ValueError):
        return None
