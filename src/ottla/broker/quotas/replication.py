"""Throttles for replication (KIP-73; ReplicationQuotaManager, SampledStat): pure.

Bytes are counted in windows of a second; the rate over the kept windows says whether replicas that
are listed in leader./follower.replication.throttled.replicas may get more data now. Listed replicas
wait, others are never held back.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
ALTER_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
UNLIMITED = 2**63 - 1
# replication.quota.window.num and .size.seconds as Kafka has them by default.
WINDOWS = 11
WINDOW_MS = 1000.0
ALL_REPLICAS = "*"


def dynamic_rate(config: BrokerConfig, name: str) -> int:
    """Bytes per second. These configs live in the store only, for a broker or for all of them;
    anything but a number of at least 0 counts as unlimited."""
    text = config.dynamic_broker.get(name, config.dynamic_default.get(name, ""))
    return int(text) if text.isascii() and text.isdecimal() else UNLIMITED


def lists_replica(throttled: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a topic's `...throttled.replicas` names this replica: `0:1,0:2`, or `*` for all."""
    return ALL_REPLICAS in throttled or f"{partition}:{broker_id}" in throttled


class ReplicationQuota:
    """One direction of one broker. `limit` may change at any time."""

    __slots__ = ("_windows", "limit")

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        # (start, bytes), oldest first.
        self._windows: deque[tuple[float, int]] = deque()

    @property
    def is_on(self) -> bool:
        return self.limit < UNLIMITED

    def record(self, size: int, now_ms: float) -> None:
        windows = self._windows
        if windows and now_ms - windows[-1][0] < WINDOW_MS:
            start, before = windows[-1]
            windows[-1] = (start, before + size)
        else:
            windows.append((now_ms, size))
        while len(windows) > WINDOWS:
            windows.popleft()

    def rate(self, now_ms: float) -> float:
        """Bytes per second. A young quota counts as if the windows before had been empty, so that
        a burst at its start is not taken for a lasting rate."""
        windows = self._windows
        while windows and now_ms - windows[0][0] >= WINDOWS * WINDOW_MS:
            windows.popleft()
        if not windows:
            return 0.0
        elapsed_ms = now_ms - windows[0][0]
        full_windows = int(elapsed_ms / WINDOW_MS)
        if full_windows < WINDOWS - 1:
            elapsed_ms += (WINDOWS - 1 - full_windows) * WINDOW_MS
        return sum(size for _, size in windows) / max(elapsed_ms, WINDOW_MS) * 1000

    def is_exceeded(self, now_ms: float) -> bool:
        return self.is_on and self.rate(now_ms) > self.limit
