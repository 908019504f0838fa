"""What a fetch asks of one partition and what it is answered (KIP-227, KIP-595), for followers that
ask and leaders that answer."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.storage.segment.slices import RecordSlice
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.types import ZERO_TOPIC_ID, TopicId

# Session ids and epochs that mean something else than a session and its next request.
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
# After this one comes 1 again.
MAX_SESSION_EPOCH = 0x7FFFFFFF


class FetchPartition(NamedTuple):
    fetch_offset: int
    max_bytes: int
    log_start_offset: int = -1
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    topic_id: TopicId = ZERO_TOPIC_ID


class FetchResult(NamedTuple):
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    # Read already, or still in their file.
    records: memoryview | RecordSlice | None = None
    # (epoch, end offset) up to which the follower's log agrees with this one (KIP-595).
    diverging_epoch: tuple[int, int] | None = None
    preferred_read_replica: int = -1
    # What a reader of committed records must leave out of `records`.
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return 0 if self.records is None else len(self.records)
