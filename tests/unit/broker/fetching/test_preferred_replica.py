"""Reading from a near replica (KIP-392)."""

from __future__ import annotations

import pytest

from ottla.broker.fetching.preferred_replica import Candidate, is_rack_aware, preferred_replica
from ottla.broker.handlers import fetch
from ottla.config.broker import BrokerConfig
from ottla.errors import OttlaError
from ottla.wire import messages as m
from tests.support.broker import cluster_messages
from tests.support.broker.replica_cluster import (
    TOPIC_ID,
    TP,
    Broker,
    MakeBrokers,
    brokers,
    lead,
    until,
)

__all__ = ["brokers"]
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_the_selector_class() -> None:
    assert is_rack_aware(RACK_AWARE)
    assert not is_rack_aware(None)
    with pytest.raises(OttlaError, match=r"Class my.Selector could not be found"):
        is_rack_aware("my.Selector")


def test_the_choice() -> None:
    near = Candidate(1, "a", 100, 5.0)
    ahead = Candidate(2, "a", 120, 9.0)
    far = Candidate(3, "b", 500, 0.0)
    assert preferred_replica("a", "c", [near, ahead, far]) == 2
    assert preferred_replica("a", "c", [near, ahead._replace(end_offset=100)]) == 1
    assert preferred_replica("a", "a", [near]) == -1
    assert preferred_replica("z", "c", [near, far]) == -1
    assert preferred_replica("", "c", [near]) == -1


async def consume(
    broker: Broker, rack: str, *, offset: int = 0, version: int = 12
) -> tuple[int, int]:
    """(preferred replica, bytes) of a fetch."""
    request = m.FetchRequest
    want = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = request(
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        rack_id=rack,
        topics=[request.FetchTopic(topic="t", partitions=[want])],
    )
    decoded, _ = request.decode(asked.encode(version), version)
    response = await fetch.handle(broker.context(version), decoded)
    data = response.responses[0].partitions[0]
    assert data.error_code == 0
    return data.preferred_read_replica, len(data.records or b"")


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(
    brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = BrokerConfig.from_properties
    selector = {"replica.selector.class": RACK_AWARE}
    monkeypatch.setattr(
        BrokerConfig,
        "from_properties",
        lambda given: make({**given, **selector, "broker.rack": f"rack-{given['broker.id']}"}),
    )
    members = await brokers(2)
    for broker in members:
        broker.cache.update(
            cluster_messages.update(
                {"t": [cluster_messages.partition(0, 0, [0, 1])]},
                brokers=[cluster_messages.broker(n, rack=f"rack-{n}") for n in (0, 1)],
                ids={"t": TOPIC_ID},
            )
        )
    lead(members, 0, 1)
    await members[0].produce(3, acks=-1)
    await until(lambda: members[1].log.high_watermark == 3)
    assert await consume(members[0], "rack-1") == (1, 0)
    preferred, size = await consume(members[1], "rack-1")
    assert preferred == -1 and size > 0
    for rack in ("rack-0", "rack-9", ""):
        preferred, size = await consume(members[0], rack)
        assert preferred == -1 and size > 0
    assert members[0].manager.partitions.get(TP) is not None
