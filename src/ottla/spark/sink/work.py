"""Which work a task of the sink does."""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """Names one task of one micro-batch, the same for every attempt."""

    query_id: str
    batch_id: int
    sink_partition: int
    # False: a batch write by itself, whose number its caller chose (txnVersion).
    in_query: bool = True

    @property
    def title(self) -> str:
        return f"task {self.sink_partition} of {self.batch_title(self.batch_id)}"

    def batch_title(self, batch_id: int) -> str:
        return f"micro-batch {batch_id}" if self.in_query else f"txnVersion {batch_id}"
