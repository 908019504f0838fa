"""One fetch as a whole: who reads, how much, and what they may see."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError

CONSUMER = -1
READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, READ_COMMITTED)


def check_isolation_level(level: int) -> None:
    """IsolationLevel.forId knows two and fails the whole request for another."""
    if level not in _ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {level}")


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
