"""What a pipelining producer makes of a leader that did not lead yet when its first batch came.

librdkafka has up to five batches of a partition under way. Here the broker begins to lead between
the first one, which it refused, and the second. Apache Kafka then takes the second for the first
one of a producer that it does not know, and librdkafka takes its answer for an answer to the
refused one, too: records are acknowledged and nowhere. A producer that is known is told that the
second batch is out of order: librdkafka begins a new epoch, and writes again whatever has no answer
on any other partition.

Where the broker before refused the first batch, librdkafka waits for all answers before it sends
anything to the new leader, but for a few instructions in which it takes its queue without the
refused batch and then finds that nothing is under way. Load hits that once in some hundred moves;
here the same requests are sent by hand.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode
from ottla.storage.segment import batch_scan
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from tests.support.integration import lifecycle_helpers as h
from tests.support.integration.local_cluster import LocalCluster

TP = TopicPartition("t", 0)
BATCHES = 5
SOMEBODY_ELSE = 99


class Pipeline:
    """A librdkafka producer that sends every record as a batch of its own."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.answers: dict[int, str | None] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "batch.num.messages": 1,
                "log_level": 2,
            }
        )

    async def send(self, partition: int, numbers: range) -> None:
        def call() -> None:
            for number in numbers:
                self._producer.produce(
                    TP.topic,
                    str(number).encode(),
                    partition=partition,
                    on_delivery=lambda error, _, number=number: self._answered(number, error),
                )
            assert self._producer.flush(60) == 0

        await asyncio.to_thread(call)

    def _answered(self, number: int, error: Any) -> None:
        self.answers[number] = None if error is None else str(error)


async def refuse_the_first(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> tuple[Partition, list[ErrorCode]]:
    """The partition's leader is told that it leads when it has refused one batch."""
    manager = cluster.nodes[0].services.replica_manager
    partition = manager.partitions.require(TP)
    append = manager.appends.append
    told: list[ErrorCode] = []

    async def append_and_lead(entries: Any, **options: Any) -> Any:
        results = await append(entries, **options)
        if TP in entries:
            told.append(results[TP].error)
            partition.leader = 0
        return results

    monkeypatch.setattr(manager.appends, "append", append_and_lead)
    partition.leader = SOMEBODY_ELSE
    return partition, told


@pytest.mark.parametrize("known", [False, True], ids=["unknown producer", "known producer"])
async def test_what_is_behind_a_refused_batch_is_refused_too(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    await h.create(cluster, "t", [0], [0])
    producer = Pipeline(cluster.bootstrap)
    # The connection, and perhaps the producer's first batch, are there before.
    await producer.send(0 if known else 1, range(1))
    partition, told = await refuse_the_first(cluster, monkeypatch)
    numbers = range(1, 1 + BATCHES)
    await producer.send(0, numbers)
    assert told[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert producer.answers == dict.fromkeys(range(1 + BATCHES))
    log = partition.log
    assert log is not None
    headers = [
        header
        for segment in log.segments
        for _, header in batch_scan.headers(segment.file(), 0, segment.size)
    ]
    first = 0 if known else 1
    assert [header.base_sequence for header in headers] == list(range(len(headers)))
    assert len(headers) == 1 + BATCHES - first
    assert {header.producer_epoch for header in headers} == {0}


@pytest.mark.parametrize("known", [False, True], ids=["unknown producer", "known producer"])
async def test_a_new_leader_waits_for_the_batch_that_the_old_one_refused(
    cluster: LocalCluster, known: bool
) -> None:
    await h.create(cluster, "t", [0, 1])
    first = int(known)
    if known:
        assert await told_by(cluster, 0, 0) is ErrorCode.NONE
    assert await h.reassign(cluster, "t", {0: [1]}) == {0: 0}
    new = cluster.nodes[1].services.replica_manager.partitions.require(TP)
    await cluster.until(lambda: new.is_leader, "broker 1 leads")
    assert await told_by(cluster, 0, first) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await told_by(cluster, 1, first + 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for sequence in (first, first + 1):
        assert await told_by(cluster, 1, sequence) is ErrorCode.NONE
    assert new.leader_log().end_offset == first + 2


async def told_by(cluster: LocalCluster, broker_id: int, sequence: int) -> ErrorCode:
    batch = records.build_batch(
        [records.Record(None, b"%d" % sequence, 1_700_000_000_000)],
        producer_id=4_000,
        producer_epoch=0,
        base_sequence=sequence,
    )
    sent = m.ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    topic = m.ProduceRequest.TopicProduceData(name=TP.topic, partition_data=[sent])
    request = m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
    answer = await h.ask(cluster.nodes[broker_id], request, 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)
