"""Batches that lie get the answers of Apache Kafka 2.8.2; those that it takes become equal logs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.wire import records
from tests.support.peers.batch_lies import TOPICS, Lie, all_lies

pytestmark = pytest.mark.peers
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER.
_NOT_YET = (3, 5, 6)
# Of the broker's clock.
_TIMES = re.compile(r"\[\d+, \d+\]")


def _topic(name: str) -> str:
    return f"lies-{name}"


async def _produce(connection: Connection, lie: Lie) -> tuple[Any, ...]:
    request = m.ProduceRequest
    part = request.PartitionProduceData(index=0, records=memoryview(lie.batch))
    topic = request.TopicProduceData(name=_topic(lie.topic), partition_data=[part])
    sent = request(acks=1, timeout_ms=10_000, topic_data=[topic])
    answer = await connection.send(sent, 9, timeout_ms=20_000)
    found = answer.responses[0].partition_responses[0]
    errors = [
        (error.batch_index, _TIMES.sub("[]", error.batch_index_error_message or ""))
        for error in found.record_errors
    ]
    # Kafka has a text only where it names records.
    text = found.error_message if errors else None
    time = found.log_append_time_ms >= 0
    return int(found.error_code), found.base_offset, time, found.log_start_offset, text, errors


async def _log_of(connection: Connection, topic: str) -> list[tuple[Any, ...]]:
    """All batches of a topic: their headers, without what a broker's clock set, and records."""
    found: list[tuple[Any, ...]] = []
    offset = 0
    while data := await _fetched(connection, topic, offset):
        for header, view in records.iter_batches(data):
            records.verify_crc(view)
            kept = header._replace(batch_length=0, size=0, crc=0, partition_leader_epoch=0)
            if header.is_log_append_time:
                kept = kept._replace(max_timestamp=0, base_timestamp=0)
            contents = [
                record._replace(timestamp=0) if header.is_log_append_time else record
                for record in records.iter_records(view)
            ]
            found.append((kept, contents))
            offset = header.next_offset
    return found


async def _fetched(connection: Connection, topic: str, offset: int) -> memoryview | None:
    request = m.FetchRequest
    part = request.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 24)
    asked = request.FetchTopic(topic=_topic(topic), partitions=[part])
    sent = request(max_bytes=1 << 24, session_epoch=-1, topics=[asked])
    answer = await connection.send(sent, 11, timeout_ms=20_000)
    found: memoryview | None = answer.responses[0].partitions[0].records
    return found


async def _until_led(connection: Connection, topic: str) -> None:
    """The first batch that is taken is the first for both."""
    first = all_lies()[0]._replace(topic=topic)
    for _ in range(400):
        if (await _produce(connection, first))[0] not in _NOT_YET:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"nobody leads {topic}")


async def _answers(bootstrap_servers: str) -> tuple[dict[Any, Any], dict[str, Any]]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = [
        # What is sent is years old: it must not expire.
        NewTopic(
            _topic(name), 1, replica_assignment=[[0]], config={"retention.ms": "-1", **configs}
        )
        for name, configs in TOPICS.items()
    ]
    for made in admin.create_topics(wanted).values():
        made.result(30)
    host, port = bootstrap_servers.split(",")[0].split(":")
    connection = await Connection.open(system_runtime().network, host, int(port), client_id="liar")
    try:
        for topic in TOPICS:
            await _until_led(connection, topic)
        said = {(lie.name, lie.topic): await _produce(connection, lie) for lie in all_lies()}
        return said, {topic: await _log_of(connection, topic) for topic in TOPICS}
    finally:
        connection.close()


async def test_lies_get_kafkas_answers(ottla_processes: Any, apache_cluster: Any) -> None:
    ours, our_logs = await _answers(ottla_processes.bootstrap_servers)
    theirs, their_logs = await _answers(apache_cluster.bootstrap_servers)
    assert len(theirs) == len(all_lies()) > 700, "names are told apart"
    codes = {answer[0] for answer in theirs.values()}
    assert codes == {0, -1, 87, 32}
    differences = {
        name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]
    }
    assert differences == {}
    for topic, their_log in their_logs.items():
        different = [
            pair for pair in zip(our_logs[topic], their_log, strict=True) if pair[0] != pair[1]
        ]
        assert different == []
