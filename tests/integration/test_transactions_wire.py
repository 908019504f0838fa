"""Transactions, request by request on one real broker: codes by version, waiting, fencing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.connection import Connection
from ottla.process.node import Node
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from tests.support.integration.local_cluster import HOST, LocalCluster

TOPIC = "t"
READ_COMMITTED = 1


class Wire:
    """A client that speaks the protocol by hand."""

    def __init__(self, connection: Connection, node: Node | None = None) -> None:
        self.connection = connection
        self.node = node
        self.sequence = 0

    async def send(self, message: Any, version: int) -> Any:
        return await self.connection.send(message, version, timeout_ms=10_000)

    async def until_none(self, message: Any, version: int) -> Any:
        """Sends again while the answer asks for patience, as clients do."""
        for _ in range(500):
            answer = await self.send(message, version)
            if answer.error_code not in (14, 15, 16, 51):
                return answer
            await asyncio.sleep(0.02)
        raise AssertionError(answer)

    async def init(self, transactional_id: str = "id", version: int = 4, **fields: Any) -> Any:
        request = m.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000, **fields
        )
        return await self.until_none(request, version)

    async def add(self, producer: Any, version: int = 3, partitions: Any = (0,)) -> list[int]:
        topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=TOPIC, partitions=list(partitions)
        )
        answer = await self.send(
            m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="id",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            version,
        )
        (result,) = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for each in result.results_by_partition]

    async def end(self, producer: Any, *, commit: bool, version: int = 3) -> int:
        answer = await self.send(
            m.EndTxnRequest(
                transactional_id="id",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=commit,
            ),
            version,
        )
        return int(answer.error_code)

    async def produce(self, producer: Any, *values: bytes, transactional: bool = True) -> int:
        batch = records.build_batch(
            [records.Record(None, value, 1) for value in values],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )
        request = m.ProduceRequest
        data = request.PartitionProduceData(index=0, records=memoryview(batch))
        answer = await self.send(
            request(
                transactional_id="id",
                acks=-1,
                timeout_ms=5000,
                topic_data=[request.TopicProduceData(name=TOPIC, partition_data=[data])],
            ),
            9,
        )
        code = int(answer.responses[0].partition_responses[0].error_code)
        self.sequence += 0 if code else len(values)
        return code

    async def fetch(self, offset: int = 0, *, wait_ms: int = 0, isolation: int = 1) -> Any:
        request = m.FetchRequest
        part = request.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=-1
        )
        answer = await self.send(
            request(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=isolation,
                session_epoch=-1,
                topics=[request.FetchTopic(topic=TOPIC, partitions=[part])],
            ),
            11,
        )
        return answer.responses[0].partitions[0]

    async def latest(self, isolation: int) -> int:
        part = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = m.ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[part])
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        answer = await self.send(request, 5)
        return int(answer.topics[0].partitions[0].offset)

    async def mark(self, producer: Any, coordinator_epoch: int) -> int:
        request = m.WriteTxnMarkersRequest
        marker = request.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[request.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )
        answer = await self.send(request(markers=[marker]), 1)
        return int(answer.markers[0].topics[0].partitions[0].error_code)


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    try:
        node = await cluster.start(
            0,
            transaction_state_log_replication_factor="1",
            transaction_state_log_min_isr="1",
            transaction_state_log_num_partitions="2",
            offsets_topic_replication_factor="1",
        )
        connection = await Connection.open(
            system_runtime().network, HOST, node.port, client_id="wire"
        )
        client = Wire(connection, node)
        topic = m.CreateTopicsRequest.CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1
        )
        await client.send(m.CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
        found = await client.until_none(m.FindCoordinatorRequest(key="id", key_type=1), 2)
        assert (found.node_id, found.port) == (0, node.port)
        yield client
        connection.close()
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()


def values_in(part: Any) -> list[bytes | None]:
    return [
        record.value
        for header, batch in records.iter_batches(part.records)
        if not header.is_control
        for record in records.iter_records(batch)
    ]


async def test_a_reader_of_committed_records_waits_for_the_marker(wire: Wire) -> None:
    producer = await wire.init()
    assert await wire.add(producer) == [0]
    assert await wire.produce(producer, b"a", b"b") == 0
    held_back = await wire.fetch()
    assert (values_in(held_back), held_back.high_watermark) == ([], 2)
    assert held_back.last_stable_offset == 0
    assert held_back.aborted_transactions == []
    assert values_in(await wire.fetch(isolation=0)) == [b"a", b"b"]
    assert (await wire.latest(0), await wire.latest(READ_COMMITTED)) == (2, 0)
    reader = await Connection.open(system_runtime().network, HOST, _port(wire), client_id="reader")
    waiting = asyncio.create_task(Wire(reader).fetch(wait_ms=8000))
    assert wire.node is not None
    partition = wire.node.services.replica_manager.partitions.require(TopicPartition(TOPIC, 0))
    async with asyncio.timeout(5):
        while not partition.fetch_waits:  # noqa: ASYNC110 - nobody announces that it waits
            await asyncio.sleep(0.01)
    assert not waiting.done()
    assert await wire.end(producer, commit=True) == 0
    found = await asyncio.wait_for(waiting, 4)
    assert values_in(found) == [b"a", b"b"]
    assert found.last_stable_offset == 3
    assert await wire.latest(READ_COMMITTED) == 3
    reader.close()


def _port(wire: Wire) -> int:
    transport = wire.connection._transport
    assert transport is not None
    return int(transport.get_extra_info("peername")[1])


async def test_aborted_transactions_are_listed(wire: Wire) -> None:
    producer = await wire.init()
    await wire.add(producer)
    await wire.produce(producer, b"x")
    await wire.end(producer, commit=False)
    await wire.init()  # waits until the abort is complete
    found = await wire.fetch()
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
        (producer.producer_id, 0)
    ]
    assert (await wire.fetch(isolation=0)).aborted_transactions is None


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90)])
async def test_fenced_producers_by_version(wire: Wire, version: int, code: int) -> None:
    old = await wire.init()
    await wire.init()
    assert await wire.add(old, version) == [code]
    assert await wire.end(old, commit=True, version=version) == code
    offsets = m.AddOffsetsToTxnRequest(
        transactional_id="id",
        producer_id=old.producer_id,
        producer_epoch=old.producer_epoch,
        group_id="g",
    )
    assert (await wire.send(offsets, version)).error_code == code


@pytest.mark.parametrize(("version", "code"), [(3, 47), (4, 90)])
async def test_fenced_inits_by_version(wire: Wire, version: int, code: int) -> None:
    old = await wire.init()
    await wire.init()
    again = await wire.init(
        version=version, producer_id=old.producer_id, producer_epoch=old.producer_epoch
    )
    assert again.error_code == code


async def test_unknown_partitions_spoil_the_others(wire: Wire) -> None:
    producer = await wire.init()
    assert await wire.add(producer, partitions=(0, 7)) == [55, 3]
    assert await wire.end(producer, commit=True) == 48


async def test_records_in_and_out_of_transactions(wire: Wire) -> None:
    producer = await wire.init()
    await wire.add(producer)
    assert await wire.produce(producer, b"in") == 0
    assert await wire.produce(producer, b"out", transactional=False) == 48
    await wire.end(producer, commit=True)
    heir = await wire.init()
    await wire.add(heir)
    assert await wire.produce(heir, b"x") == 45, "a new epoch starts with sequence 0"
    wire.sequence = 0
    assert await wire.produce(heir, b"x") == 0
    assert await wire.produce(producer, b"zombie") == 47


async def test_an_old_coordinator_is_fenced(wire: Wire) -> None:
    producer = await wire.init()
    assert await wire.mark(producer, 5) == 0
    assert await wire.mark(producer, 4) == 52
    assert await wire.mark(producer, 5) == 0


async def test_there_are_no_markers_of_nobody(wire: Wire) -> None:
    producer = await wire.init()
    nobody = m.InitProducerIdResponse(producer_id=-1, producer_epoch=0)
    ageless = m.InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=-1)
    assert [await wire.mark(each, 0) for each in (nobody, ageless)] == [-1, -1]
    assert await wire.latest(0) == 0
    assert await wire.mark(producer, 0) == 0
    nowhere = m.WriteTxnMarkersRequest.WritableTxnMarker(producer_id=1, producer_epoch=0)
    answer = await wire.send(m.WriteTxnMarkersRequest(markers=[nowhere]), 1)
    assert answer.markers == []


async def test_looking_at_transactions_and_producers(wire: Wire) -> None:
    producer = await wire.init()
    await wire.add(producer)
    await wire.produce(producer, b"a", b"b")
    described = await wire.send(
        m.DescribeTransactionsRequest(transactional_ids=["id", "nobody", ""]), 0
    )
    first, unknown, nameless = described.transaction_states
    assert (first.transaction_state, first.producer_id) == ("Ongoing", producer.producer_id)
    assert [(each.topic, each.partitions) for each in first.topics] == [(TOPIC, [0])]
    assert (unknown.error_code, nameless.error_code) == (105, 42)
    for fields, ids, strange in (
        ({}, ["id"], []),
        ({"state_filters": ["Ongoing"]}, ["id"], []),
        ({"state_filters": ["Empty", "Nonsense", "Nonsense"]}, [], ["Nonsense"]),
        ({"producer_id_filters": [producer.producer_id + 1]}, [], []),
        ({"duration_filter": 60_000}, [], []),
        ({"duration_filter": 0}, ["id"], []),
    ):
        await asyncio.sleep(0.002)
        listed = await wire.send(m.ListTransactionsRequest(**fields), 1)
        assert [each.transactional_id for each in listed.transaction_states] == ids
        assert listed.unknown_state_filters == strange
    topic = m.DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0, 9])
    producers = await wire.send(m.DescribeProducersRequest(topics=[topic]), 0)
    here, missing = producers.topics[0].partitions
    (active,) = here.active_producers
    assert (active.producer_id, active.last_sequence) == (producer.producer_id, 1)
    assert (active.current_txn_start_offset, active.coordinator_epoch) == (0, -1)
    assert missing.error_code == 3


async def test_offsets_of_a_transaction(wire: Wire) -> None:
    await wire.until_none(m.FindCoordinatorRequest(key="g"), 2)
    producer = await wire.init()
    add = m.AddOffsetsToTxnRequest(
        transactional_id="id",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="g",
    )
    assert (await wire.send(add, 3)).error_code == 0
    request = m.TxnOffsetCommitRequest
    parts = [
        request.TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=5, committed_metadata=None
        )
        for number in (0, 9)
    ]
    commit = request(
        transactional_id="id",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=parts)],
    )
    for _ in range(100):
        answer = await wire.send(commit, 3)
        codes = [each.error_code for each in answer.topics[0].partitions]
        if codes[0] not in (14, 16):
            break
        await asyncio.sleep(0.02)
    assert codes == [0, 3]
    commit.producer_id = -1
    answer = await wire.send(commit, 3)
    assert [each.error_code for each in answer.topics[0].partitions] == [-1, -1]
    wanted = m.OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    fetch = m.OffsetFetchRequest(group_id="g", topics=[wanted], require_stable=True)
    (part,) = (await wire.send(fetch, 7)).topics[0].partitions
    assert (part.error_code, part.committed_offset) == (88, -1)
    assert await wire.end(producer, commit=True) == 0
    await wire.init()  # waits until the commit is complete
    (part,) = (await wire.send(fetch, 7)).topics[0].partitions
    assert (part.error_code, part.committed_offset) == (0, 5)
