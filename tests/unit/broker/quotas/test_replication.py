from __future__ import annotations

from ottla.broker.quotas.replication import (
    FOLLOWER_RATE,
    LEADER_RATE,
    UNLIMITED,
    ReplicationQuota,
    dynamic_rate,
    lists_replica,
)
from ottla.config.broker import BrokerConfig


def test_listed_replicas() -> None:
    assert lists_replica(("0:1", "3:2"), 3, 2)
    assert not lists_replica(("0:1", "3:2"), 3, 1)
    assert lists_replica(("*",), 7, 9)
    assert not lists_replica((), 0, 0)


def test_rates_come_from_the_broker_before_the_default() -> None:
    config = BrokerConfig({}, {LEADER_RATE: "5", FOLLOWER_RATE: "-1"}, {LEADER_RATE: "7"})
    assert dynamic_rate(config, LEADER_RATE) == 7
    assert dynamic_rate(config, FOLLOWER_RATE) == UNLIMITED
    assert dynamic_rate(BrokerConfig({}), LEADER_RATE) == UNLIMITED


def test_without_a_limit_nothing_is_exceeded() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0)
    assert not quota.is_exceeded(0)


def test_a_steady_stream_settles_at_the_limit() -> None:
    """Sends whenever it may, in chunks, for a minute of ticks."""
    quota = ReplicationQuota(1000)
    sent, now = 0, 0.0
    while now < 60_000:
        if not quota.is_exceeded(now):
            quota.record(200, now)
            sent += 200
        now += 20
    assert 0.9 * 60_000 < sent < 1.25 * 60_000


def test_a_first_burst_counts_over_all_windows() -> None:
    quota = ReplicationQuota(1000)
    quota.record(9_000, 0)
    assert not quota.is_exceeded(1)
    quota.record(2_000, 2)
    assert quota.is_exceeded(3)
    assert quota.rate(3) < 1100


def test_old_windows_are_forgotten() -> None:
    quota = ReplicationQuota(10)
    quota.record(1_000_000, 0)
    assert quota.is_exceeded(10_000)
    assert not quota.is_exceeded(11_001)
    assert quota.rate(11_001) == 0
