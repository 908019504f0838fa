"""The walks of docs/architecture.md, taken: every hop is called, in the order of the page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from confluent_kafka import Producer

from ottla.client.connection import Connection
from ottla.runtime import system_runtime
from ottla.storage.manager.shared_ids import FILE_NAME as SHARED_IDS
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from tests.support.architecture import SOURCE, Hop, Step, walk
from tests.support.integration.lifecycle_helpers import ask
from tests.support.integration.local_cluster import HOST, LocalCluster

TOPIC = "walked"
PRODUCE_VERSION = 9
# A fetch that times out just before a batch comes takes another way: then the walk is taken again.
ATTEMPTS = 20


@contextmanager
def _calls() -> Iterator[list[Hop]]:
    """Every function of ours that is called, or gone on with, in this thread."""
    calls: list[Hop] = []
    root = f"{SOURCE}/"

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            calls.append(Hop(code.co_filename.removeprefix(root), code.co_qualname))

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _missed(steps: list[Step], calls: list[Hop]) -> list[str]:
    """Hops that were not called after the one before them; steps that did not follow each other."""
    missed = []
    begun = -1
    for step in steps:
        at = begun
        for number, hop in enumerate(step.hops):
            try:
                at = calls.index(hop, at + 1)
            except ValueError:
                missed.append(str(hop))
            if number == 0 and not step.is_meanwhile:
                begun = at
    return missed


async def _create(cluster: LocalCluster, partitions: int) -> None:
    request = m.CreateTopicsRequest(
        topics=[
            m.CreateTopicsRequest.CreatableTopic(
                name=TOPIC,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    m.CreateTopicsRequest.CreatableReplicaAssignment(
                        partition_index=partition, broker_ids=[0, 1, 2]
                    )
                    for partition in range(partitions)
                ],
            )
        ],
        timeout_ms=10_000,
    )
    response = await ask(cluster.controller, request, 5)
    assert [topic.error_code for topic in response.topics] == [0]


async def test_create_topics(cluster: LocalCluster) -> None:
    request = m.CreateTopicsRequest.CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=3
    )
    with _calls() as calls:
        await ask(cluster.controller, m.CreateTopicsRequest(topics=[request], timeout_ms=10_000), 5)
        await cluster.until_all_know(TOPIC, 1, 3)
    assert _missed(walk(1), calls) == []
    assert calls.count(Hop("storage/log/log.py", "Log.create")) == 3
    for broker_id in cluster.nodes:
        folder = cluster.folder / f"broker-{broker_id}" / f"{TOPIC}-0"
        assert folder.is_dir() and not list(folder.iterdir())
        assert f" {TOPIC}-0\n" in (folder.parent / SHARED_IDS).read_text()


async def test_produce_on_the_direct_lane(cluster: LocalCluster) -> None:
    await _create(cluster, 1)
    await cluster.until_all_know(TOPIC, 1, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})

    def send() -> None:
        producer.produce(TOPIC, b"value", partition=0)
        assert producer.flush(30) == 0

    await asyncio.to_thread(send)
    for _ in range(ATTEMPTS):
        with _calls() as calls:
            await asyncio.to_thread(send)
        missed = _missed(walk(2), calls)
        if not missed:
            break
    assert missed == []


async def test_produce_on_the_general_lane(cluster: LocalCluster) -> None:
    await _create(cluster, 2)
    await cluster.until_all_know(TOPIC, 2, 3)
    cls = m.ProduceRequest
    # The second one has no time of its own, and gets a second look.
    batches = [build_batch([Record(b"key", b"value", timestamp=time)]) for time in (1, -1)]
    request = cls(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            cls.TopicProduceData(
                name=TOPIC,
                partition_data=[
                    cls.PartitionProduceData(index=index, records=memoryview(batch))
                    for index, batch in enumerate(batches)
                ],
            )
        ],
    )
    connection = await Connection.open(
        system_runtime().network, HOST, cluster.nodes[0].port, client_id="walk"
    )
    try:
        with _calls() as calls:
            response = await connection.send(request, PRODUCE_VERSION, timeout_ms=30_000)
    finally:
        connection.close()
    results = response.responses[0].partition_responses
    assert [result.error_code for result in results] == [0, 0]
    assert _missed(walk(2, other_way=True), calls) == []
    for node in cluster.nodes.values():
        log = node.services.replica_manager.partitions.log(TopicPartition(TOPIC, 1))
        assert log.end_offset == 1
