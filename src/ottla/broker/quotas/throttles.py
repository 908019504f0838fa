"""The throttles of one broker: what listed replicas may send and fetch (KIP-73)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.quotas.replication import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ReplicationQuota,
    dynamic_rate,
    lists_replica,
)
from ottla.runtime import Clock
from ottla.storage.log.log import Log

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class ReplicationThrottles:
    def __init__(self, clock: Clock, broker_id: int, config: BrokerConfig) -> None:
        self._clock = clock
        self._broker_id = broker_id
        self.leader, self.follower = ReplicationQuota(), ReplicationQuota()
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        self.leader.limit = dynamic_rate(config, LEADER_RATE)
        self.follower.limit = dynamic_rate(config, FOLLOWER_RATE)

    def holds_back(self, log: Log | None, replica_id: int, isr: Collection[int]) -> bool:
        """Followers out of the ISR wait while the listed replicas took more than their rate."""
        return (
            self.leader.is_on
            and log is not None
            and replica_id not in isr
            and self._lists(log, log.settings.leader_replication_throttled_replicas)
            and self.leader.is_exceeded(self._clock.monotonic_ms())
        )

    def must_pause(self, log: Log) -> bool:
        """Whether this broker, behind with a listed replica, has fetched enough for now."""
        return (
            self.follower.is_on
            and self._lists(log, log.settings.follower_replication_throttled_replicas)
            and self.follower.is_exceeded(self._clock.monotonic_ms())
        )

    def sent(self, log: Log, size: int) -> None:
        """Bytes that a follower got from this leader."""
        if self.leader.is_on and self._lists(
            log, log.settings.leader_replication_throttled_replicas
        ):
            self.leader.record(size, self._clock.monotonic_ms())

    def fetched(self, log: Log, size: int) -> None:
        if self.follower.is_on and self._lists(
            log, log.settings.follower_replication_throttled_replicas
        ):
            self.follower.record(size, self._clock.monotonic_ms())

    def _lists(self, log: Log, throttled: tuple[str, ...]) -> bool:
        return bool(throttled) and lists_replica(throttled, log.tp.partition, self._broker_id)
