"""Batches that lie and are in a log already: the source says so, and leaves nothing out."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.spark.errors import SourceError
from ottla.testing.cluster import Cluster
from ottla.wire import messages as m
from ottla.wire.compression import GZIP, ZSTD
from tests.support.peers.batch_lies import batch, record
from tests.support.spark.topics import Topics

_TWO = record(0) + record(1)
_LIES = {
    "one record less than there are": batch(_TWO + record(2), 2),
    "one record more than there are": batch(_TWO, 3),
    "garbage": batch(b"garbage " * 9, 2),
    "the wrong codec": batch(_TWO, 2, ZSTD, is_packed=True),
    "a record that is twice there": batch(record(0) + record(0), 2),
    "a record outside its batch": batch(record(0) + record(7), 2),
    "a record before its batch": batch(record(-1) + record(1), 2),
    "compressed ones that stand": batch(record(1) + record(0), 2, GZIP),
}


@pytest.fixture(scope="module")
def topics():
    """Of a broker that believes what it is sent."""
    with Cluster(brokers=1, overrides={"ottla.records.validate": "header"}) as cluster:
        yield Topics(cluster.bootstrap_servers)


def _send(topics: Topics, topic: str, *batches: bytes) -> None:
    async def send() -> None:
        host, port = topics.servers.split(":")
        connection = await Connection.open(
            system_runtime().network, host, int(port), client_id="liar"
        )
        request = m.ProduceRequest
        for data in batches:
            part = request.PartitionProduceData(index=0, records=memoryview(data))
            named = request.TopicProduceData(name=topic, partition_data=[part])
            sent = request(acks=1, timeout_ms=10_000, topic_data=[named])
            answer = await connection.send(sent, 9, timeout_ms=20_000)
            assert answer.responses[0].partition_responses[0].error_code == 0
        connection.close()

    asyncio.run(send())


@pytest.mark.parametrize("lie", _LIES)
def test_a_reader_stops_with_a_sentence(topics, lie):
    name = topics.create()
    _send(topics, name, batch(_TWO, 2), _LIES[lie], batch(_TWO, 2))
    with pytest.raises(SourceError, match=f"{name}-0 cannot be read from offset"):
        topics.read(subscribe=name)


def test_so_does_spark(topics, spark):
    name = topics.create()
    _send(topics, name, batch(_TWO, 2), _LIES["one record less than there are"])
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": name}
    with pytest.raises(Exception, match=f"{name}-0 cannot be read from offset"):
        spark.read.format("ottla").options(**options).load().collect()
