"""Batches that take long to look at: whoever sends one waits for it, in order, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.testing.cluster import Cluster
from ottla.wire import messages as m
from ottla.wire.compression import GZIP, NONE, ZSTD
from tests.support.peers.batch_lies import batch, record

_MANY = 40_000
_BODY = b"".join(record(number, value=b"v" * (number % 3)) for number in range(_MANY))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1) as running:
        yield running


async def _opened(cluster: Cluster) -> Connection:
    host, port = cluster.bootstrap_servers.split(":")
    return await Connection.open(system_runtime().network, host, int(port), client_id="long")


async def _produce(connection: Connection, topic: str, data: bytes) -> tuple[int, int]:
    request = m.ProduceRequest
    part = request.PartitionProduceData(index=0, records=memoryview(data))
    named = request.TopicProduceData(name=topic, partition_data=[part])
    sent = request(acks=-1, timeout_ms=30_000, topic_data=[named])
    answer = await connection.send(sent, 9, timeout_ms=60_000)
    found = answer.responses[0].partition_responses[0]
    return int(found.error_code), found.base_offset


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
async def test_what_is_sent_behind_it_is_appended_behind_it(cluster: Cluster, codec: int) -> None:
    """Five in flight of an idempotent producer: out of order, the second would be refused."""
    topic = f"behind-{codec}"
    cluster.create_topic(topic, partitions=1, replication_factor=1)
    producer = 7000 + codec
    sent = [batch(_BODY, _MANY, codec, producer=(producer, 0, 0))]
    for number in range(4):
        sequence = _MANY + number
        sent.append(batch(record(0), 1, producer=(producer, 0, sequence)))
    connection = await _opened(cluster)
    answers = await asyncio.gather(*(_produce(connection, topic, data) for data in sent))
    connection.close()
    assert answers == [(0, 0), *((0, _MANY + number) for number in range(4))]


async def test_others_are_answered_meanwhile(cluster: Cluster) -> None:
    """Bombs wait for each other; a small batch that comes after all of them does not."""
    cluster.create_topic("meanwhile", partitions=1, replication_factor=1)
    bomb = batch(bytes(90_000_000), 3, ZSTD)
    senders = [await _opened(cluster) for _ in range(4)]
    bombs = [asyncio.create_task(_produce(one, "meanwhile", bomb)) for one in senders]
    good = await _opened(cluster)
    answered = 0
    while not all(task.done() for task in bombs):
        assert await _produce(good, "meanwhile", batch(record(0), 1)) == (0, answered)
        answered += 1
    assert {task.result()[0] for task in bombs} == {ErrorCode.INVALID_RECORD}
    for connection in (*senders, good):
        connection.close()
    assert answered > 8
