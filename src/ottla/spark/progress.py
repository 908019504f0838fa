"""What a streaming query's progress says about its topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.spark.errors import OffsetError
from ottla.spark.source import offsets as o


def lag(progress: Mapping[str, Any]) -> int:
    """Records that were there and not yet read at the end of the micro-batch, over all sources.

    `progress` is an entry of `query.recentProgress`. Sources of other formats count as 0.
    """
    return sum(_lag_of(source) for source in progress["sources"])


def _lag_of(source: Mapping[str, Any]) -> int:
    try:
        end, latest = (_offsets(source[name]) for name in ("endOffset", "latestOffset"))
    except (OffsetError, KeyError, ValueError):
        return 0
    read = dict(o.iter_partitions(end))
    return sum(max(offset - read.get(p, 0), 0) for p, offset in o.iter_partitions(latest))


def _offsets(value: Any) -> o.Offsets:
    return o.from_json(json.loads(value) if isinstance(value, str) else value)
