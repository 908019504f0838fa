"""Which fetches wait for `min_bytes`: the same ones on Apache Kafka 2.8.2 and on Ottla."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.cluster import Cluster
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

pytestmark = pytest.mark.peers

TOPIC = "many-segments"
TP = TopicPartition(TOPIC, 0)
SEGMENTS = 4
# Each batch is more than half a segment, so that it gets one of its own.
SETTINGS = {"segment.bytes": "200"}
VALUE = bytes(120)
MAX_WAIT_MS = 700
# Below half of it nobody has waited, whatever else the machine does.
AT_ONCE_S = MAX_WAIT_MS / 2000


def produce_request() -> m.ProduceRequest:
    part = m.ProduceRequest.PartitionProduceData(
        index=0, records=build_batch([Record(None, VALUE, int(time.time() * 1000))])
    )
    data = m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[part])
    return m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def fetch_request(offset: int, *, committed: bool, in_session: bool) -> m.FetchRequest:
    part = m.FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return m.FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1 << 20,
        isolation_level=int(committed),
        session_epoch=0 if in_session else -1,
        topics=[m.FetchRequest.FetchTopic(topic=TOPIC, partitions=[part])],
    )


async def fill(cluster: Cluster) -> int:
    """One batch for each segment; returns the leader. A broker that has not heard of a new topic
    yet says that there is none."""
    written = 0
    for _ in range(100):
        try:
            leader = await cluster.leader_of(TP, refresh=True)
            while written < SEGMENTS:
                answer = await cluster.send_to_broker(leader, produce_request(), max_version=8)
                code = answer.responses[0].partition_responses[0].error_code
                if code:
                    raise KafkaError(ErrorCode(code))
                written += 1
            return leader
        except KafkaError as error:
            assert error.code in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            await asyncio.sleep(0.1)
    raise AssertionError(f"{TOPIC} has no leader")


async def outcomes(bootstrap: str) -> list[tuple[Any, ...]]:
    """What was asked, the number of bytes that came, and whether they came at once."""
    seen: list[tuple[Any, ...]] = []
    async with Cluster(system_runtime(), bootstrap) as cluster:
        leader = await fill(cluster)
        for committed in (False, True):
            for in_session in (False, True):
                for offset in range(SEGMENTS + 1):
                    asked = fetch_request(offset, committed=committed, in_session=in_session)
                    start = time.monotonic()
                    answer = await cluster.send_to_broker(leader, asked, max_version=11)
                    is_quick = time.monotonic() - start < AT_ONCE_S
                    found = answer.responses[0].partitions if answer.responses else []
                    size = sum(len(part.records or b"") for part in found)
                    seen.append((committed, in_session, offset, size, is_quick))
    return seen


def test_a_fetch_of_an_older_segment_does_not_wait(
    apache_cluster: Any, ottla_processes: Any
) -> None:
    """kafka-go's reader asks for as much as it can get, and would wait for every segment."""
    addresses = [cluster.bootstrap_servers for cluster in (ottla_processes, apache_cluster)]
    admins = [AdminClient({"bootstrap.servers": address}) for address in addresses]
    for admin in admins:
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=SETTINGS)])[TOPIC].result(30)

    async def ask_both() -> list[list[tuple[Any, ...]]]:
        return await asyncio.gather(*map(outcomes, addresses))

    ours, theirs = asyncio.run(ask_both())
    for admin in admins:
        admin.delete_topics([TOPIC])[TOPIC].result(30)
    assert ours == theirs
    # Not by chance: all but the last segment and the end of the log came at once.
    assert [is_quick for *_, is_quick in theirs[: SEGMENTS + 1]] == [True] * 3 + [False] * 2
