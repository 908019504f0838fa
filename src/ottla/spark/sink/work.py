"""Which work a task of the sink does."""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """Names one task of one micro-batch, the same for every attempt."""

    query_id: str
    batch_id: int
    sink_partition: int
