"""The small consumer: records, leaders that move, ranges that are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.client import fetch
from ottla.client.cluster import Cluster
from ottla.client.fetch import RecordReader
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch, build_marker
from tests.support.client.fake_kafka import RANGES, FakeKafka, topic

TP = TopicPartition("t", 0)


class Log:
    """One partition of a fake broker."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.errors: list[int] = []

    def fetch(self, request: Any) -> m.FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        error = self.errors.pop(0) if self.errors else 0
        if not error and offset < self.start:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        # A broker answers from the batch that holds the offset, its beginning included.
        data = b"" if error else b"".join(self.batches)
        return m.FetchResponse(
            responses=[
                m.FetchResponse.FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        m.FetchResponse.PartitionData(
                            partition_index=0, error_code=error, log_start_offset=self.start,
                            records=memoryview(data),
                        )
                    ],
                )
            ]
        )  # fmt: skip


@pytest.fixture
async def kafka() -> AsyncIterator[FakeKafka]:
    fake = await FakeKafka(1, RANGES | {1: (0, 17), 2: (0, 7)}).start()
    fake.topics = [topic("t", 1)]
    yield fake
    await fake.stop()


@pytest.fixture
async def cluster(kafka: FakeKafka) -> AsyncIterator[Cluster]:
    async with Cluster(system_runtime(), kafka.address) as cluster:
        yield cluster


@pytest.fixture
def log(kafka: FakeKafka) -> Log:
    log = Log()
    kafka.on(m.FetchRequest, log.fetch)
    return log


def records(first: int, *values: bytes, compression: int = 0) -> bytes:
    return build_batch(
        [Record(None, value, timestamp=7) for value in values],
        base_offset=first,
        compression=compression,
    )


async def test_records_come_from_the_offset_on(
    cluster: Cluster, log: Log, kafka: FakeKafka
) -> None:
    log.batches = [records(0, b"a", b"b", b"c"), records(3, b"d", compression=1)]
    reader = RecordReader(cluster, {TP: 1})
    found = await reader.poll()
    assert [(r.partition, r.offset, r.timestamp_ms, r.value) for r in found] == [
        (TP, 1, 7, b"b"),
        (TP, 2, 7, b"c"),
        (TP, 3, 7, b"d"),
    ]
    assert reader.positions == {TP: 4}
    request, version = kafka.seen[-1]
    assert version == 12, "the last version that names topics"
    assert (request.replica_id, request.session_epoch) == (-1, -1)


async def test_markers_are_passed_over(cluster: Cluster, log: Log) -> None:
    marker = build_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0,
                          base_offset=1, timestamp_ms=7)  # fmt: skip
    log.batches = [records(0, b"a"), marker]
    reader = RecordReader(cluster, {TP: 0})
    assert [r.value for r in await reader.poll()] == [b"a"]
    assert reader.positions == {TP: 2}


async def test_reading_ends_where_it_was_told(cluster: Cluster, log: Log) -> None:
    log.batches = [records(0, b"a", b"b", b"c")]
    reader = RecordReader(cluster, {TP: 0})
    assert [r.value async for r in reader.read_until({TP: 2})] == [b"a", b"b"]
    assert [r.value async for r in reader.read_until({TP: 3})] == []


async def test_a_leader_that_moved_is_looked_up_again(
    cluster: Cluster, log: Log, kafka: FakeKafka
) -> None:
    log.batches = [records(0, b"a")]
    log.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    reader = RecordReader(cluster, {TP: 0})
    assert await reader.poll() == []
    asked = sum(isinstance(request, m.MetadataRequest) for request, _ in kafka.seen)
    assert [r.value for r in await reader.poll()] == [b"a"]
    assert sum(isinstance(request, m.MetadataRequest) for request, _ in kafka.seen) == asked + 1


async def test_what_retention_took_is_passed_over(cluster: Cluster, log: Log) -> None:
    log.start = 5
    log.batches = [records(5, b"f")]
    reader = RecordReader(cluster, {TP: 0})
    assert await reader.poll() == []
    assert [r.offset for r in await reader.poll()] == [5]


async def test_an_offset_beyond_the_end_is_an_error(cluster: Cluster, log: Log) -> None:
    log.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    with pytest.raises(KafkaError, match=r"^t-0: The requested offset"):
        await RecordReader(cluster, {TP: 9}).poll()


async def test_a_leader_of_an_earlier_epoch_is_not_asked(
    kafka: FakeKafka, cluster: Cluster, log: Log
) -> None:
    """A committed offset says which epoch there has been (KIP-320)."""
    log.batches = [records(0, b"a")]
    reader = RecordReader(cluster, {TP: 0}, least_epochs={TP: 5})
    kafka.topics[0].partitions[0].leader_epoch = 4
    assert await reader.poll() == []
    assert not any(isinstance(request, m.FetchRequest) for request, _ in kafka.seen)
    kafka.topics[0].partitions[0].leader_epoch = 5
    assert [record.value for record in await reader.poll()] == [b"a"]


@pytest.mark.parametrize("epoch", [-1, 0])
async def test_an_epoch_that_never_comes_is_not_waited_for(
    kafka: FakeKafka, cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    """Old brokers tell of none, and a topic that was made again begins anew."""
    monkeypatch.setattr(fetch, "_MOST_BEHIND_ROUNDS", 1)
    log.batches = [records(0, b"a")]
    reader = RecordReader(cluster, {TP: 0}, least_epochs={TP: 5})
    kafka.topics[0].partitions[0].leader_epoch = epoch
    found = [record.value for _ in range(3) for record in await reader.poll()]
    assert found[:1] == [b"a"]
