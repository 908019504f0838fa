"""What goes into and comes out of the replica manager's append and fetch."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import RecordError
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.types import ZERO_TOPIC_ID, TopicId

CONSUMER = -1
READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, READ_COMMITTED)


def check_isolation_level(level: int) -> None:
    """IsolationLevel.forId knows two and fails the whole request for another."""
    if level not in _ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {level}")


class ProduceResult(NamedTuple):
    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


class FetchParams(NamedTuple):
    """One fetch as a whole. `replica_id` -1 is a consumer."""

    replica_id: int = CONSUMER
    max_wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation_level: int = 0
    # Fetch v0 to v2 never get more than they asked for, not even one whole batch.
    hard_max_bytes: bool = False
    # Consumers from v11 on may read from a follower (KIP-392).
    any_replica: bool = False
    client_rack: str = ""
    listener: str = ""

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def reads_committed(self) -> bool:
        """Followers get everything, whatever they ask for."""
        return self.isolation_level == READ_COMMITTED and self.replica_id < 0


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
    records: memoryview | None = None
    # (epoch, end offset) up to which the follower's log agrees with this one (KIP-595).
    diverging_epoch: tuple[int, int] | None = None
    preferred_read_replica: int = -1
    # What a reader of committed records must leave out of `records`.
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return 0 if self.records is None else len(self.records)


class LeaderNode(NamedTuple):
    """Where a leader is, for clients that asked the wrong broker (KIP-951)."""

    id: int
    host: str
    port: int
    rack: str | None
